from __future__ import annotations

from app.sampler_breaker import BreakerRule, SamplerBreaker


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


RULE = BreakerRule(max_overruns=3, window_s=60.0, open_s=30.0)


def overrun(breaker: SamplerBreaker, clock: Clock, *times_s: float) -> None:
    for time_s in times_s:
        clock.now_s = time_s
        breaker.record_overrun("slow")


def test_three_overruns_within_a_minute_open_the_breaker() -> None:
    clock = Clock()
    breaker = SamplerBreaker(RULE, clock)
    overrun(breaker, clock, 0.0, 10.0)
    assert not breaker.is_open("slow")
    overrun(breaker, clock, 59.0)
    assert breaker.is_open("slow")


def test_overruns_spread_over_more_than_a_minute_do_not_open_it() -> None:
    clock = Clock()
    breaker = SamplerBreaker(RULE, clock)
    overrun(breaker, clock, 0.0, 40.0, 80.0, 120.0)
    assert not breaker.is_open("slow")


def test_other_samplers_are_not_affected() -> None:
    clock = Clock()
    breaker = SamplerBreaker(RULE, clock)
    overrun(breaker, clock, 0.0, 1.0, 2.0)
    assert not breaker.is_open("quick")


def test_after_its_rest_one_overrun_opens_it_again_and_one_success_closes_it() -> None:
    clock = Clock()
    breaker = SamplerBreaker(RULE, clock)
    overrun(breaker, clock, 0.0, 1.0, 2.0)
    clock.now_s = 40.0
    assert not breaker.is_open("slow")
    breaker.record_overrun("slow")
    assert breaker.is_open("slow")
    clock.now_s = 80.0
    breaker.record_success("slow")
    breaker.record_overrun("slow")
    assert not breaker.is_open("slow")
