# Framegate on a CPU, with everything the `demo` profile needs.
#   docker build -t framegate .
#   docker run --rm --init -p 8000:8000 -v framegate-data:/var/lib/framegate framegate
FROM python:3.11-slim-bookworm

# vLLM's CPU build links against libnuma, which the base image lacks.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libnuma1=2.0.* \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 framegate \
    && install -d -o framegate -g framegate /srv/framegate /var/lib/framegate

USER 10001
WORKDIR /srv/framegate
ENV PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1

# The dependencies are a layer of their own: a change of the code does not install them again.
COPY --chown=10001 pyproject.toml requirements.lock requirements-data.txt ./
COPY --chown=10001 deploy/setup.py deploy/
RUN python3 deploy/setup.py --extras cpu,demo --no-project && rm -rf .wheels

COPY --chown=10001 . .
RUN python3 deploy/setup.py --extras cpu,demo

ENV PATH=/srv/framegate/.venv/bin:$PATH FRAMEGATE_DATA_DIR=/var/lib/framegate
VOLUME /var/lib/framegate
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
CMD ["framegate", "serve", "--host", "0.0.0.0"]
