"""How much of a video a question is about: all of it, one moment, or several.

First by the question's words, by a list of English rules; where these say nothing, by the shape of
its scores over time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from samplers.contract import FloatArray, TimeArray

Scope: TypeAlias = Literal["whole video", "one moment", "several moments"]


@dataclass(frozen=True, slots=True)
class Reading:
    """A scope, and what it was read from, in a few words."""

    scope: Scope
    reason: str


MOST_READ_CHARS = 2_000
"""A longer question is read up to here, so that reading it takes a bounded time."""

_VIDEO = (
    r"(?:(?:this|the|that|my) )?(?:[\w-]{1,40} )?"
    r"(?:video|clip|film|movie|footage|recording|lecture)"
)
_ASKS = r"^(?:what|which|who)(?:'s)?"
# No part of any pattern may run far from where it starts: a question is not to be trusted.
_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»')
_LEAD_IN = re.compile(
    rf"^(?:please,? )?(?:in|from|watch\w*|based on|according to) {_VIDEO}\W*(?:and )?(?:say )?"
)
_VERB_LAST = re.compile(r"(\bhow long (?:do|does|did|will) .{0,120}?)\blast(?=\W*$)")
"""That something lasts says nothing about its place in an order."""

_WHOLE_VIDEO = (
    r"summar\w*|tl;?dr|recap\w*|overview|synopsis|gist|outline|chapters?",
    rf"{_VIDEO}(?: \w+)? about(?=\W*$)",
    rf"(?:describe|description of) {_VIDEO}",
    rf"(?:happen\w*|going on|goes on|shown|structured?)(?: in)? {_VIDEO}(?=\W*$)",
    r"^what(?:'s| is| did i| has)? (?:happen\w*|miss\w*)(?=\W*$)|going on(?: here)?(?=\W*$)",
    rf"(?:is|does) {_VIDEO} (?:structured|end|start|begin)",
    rf"(?:beginning|start|end|opening|conclusion) of {_VIDEO}",
    r"(?:main|central|primary|key|general) (?:topic|theme|idea|message|point|subject|purpose|"
    r"objective|goal|mood|atmosphere)",
    r"genre|plot|storyline|overall|altogether|in total|total number|in general",
    rf"(?:title|mood|tone|style|story|message|kind|type|sort) (?:of|for) {_VIDEO}",
    r"(?:entire|whole) (?:\w+ )?(?:video|clip|film|movie|footage|thing)|throughout",
    rf"how long (?:is|was|does|did) {_VIDEO}(?: last)?(?=\W*$)",
    r"most of the time|over the course of|from (?:start|beginning) to (?:finish|end)",
)
_SEVERAL_MOMENTS = (
    r"in (?:what|which|the) order|order of|sequence of|chronolog\w*|arrange",
    r"before|prior to|until|afterwards|subsequently|previously|later|earlier",
    r"(?<!look )(?<!looks )(?<!looking )(?<!named )after(?!-)",
    r"followed(?: by)?|one after another|next(?! to\b| door\b)",
    r"first(?! (?:aid|name|floor|class|person)\b)|appears? last|last(?=\W*$)",
    r"the (?:second|third|fourth|fifth|last|final)(?! (?:name|floor|row|hand)\b)",
    r"how (?:many times|often)|number of times|count (?:the|how|every|each)",
    r"(?:each|every) time|whenever|again|twice|repeatedly|(?:two|three) times",
    r"compar\w+|differen(?:ce|ces|t)|similar\w*|in common|versus|vs|both",
    r"(?:more|less|fewer|(?!rather|other|whether)[a-z]{3,}er) than|who \w+ more",
    r"(?:is|are|was|were|looks?|seems?|runs?|moves?|goes|drives?) "
    r"(?:(?!rather|other|whether|under)[a-z]{3,}er|better|worse|(?:more|less) \w+)"
    r"(?=[^,:;?]{0,40}[,:;] [^?]{1,80}? or )",
    r"which of the (?:two|three|four)|(?:happen\w*|occur\w*|relationship) between",
    r"how (?:do|does|did|has) .{0,120}?(?:change|differ|develop|evolve|progress)",
    r"steps?(?= (?:of|to|in|for))|highlights?|key moments",
    r"list (?:all|the|every|each)|name (?:all|every|each)|all (?:of )?the",
)
_TIMES = (
    r"(?:(?:at|around|about) )?\d{1,2}(?::\d\d){1,2}",
    r"(?:at|around|minute|second) \d{1,6}(?: (?:seconds?|minutes?|hours?))?",
)
_ONE_MOMENT = (
    r"at (?:what|which) (?:point|time|moment|second|minute|frame)",
    r"when (?:do|does|did|is|are|was|were)",
    r"the (?:moment|scene|part|shot|frame) (?:when|where|in which|at which|with|that)",
    r"find|locate|show me|spot|(?:is|are) there (?:a|an|any)|ever appears?",
    rf"{_ASKS} (?:(?:is|are|was|were) the )?(?:colou?r|number|brand|model|shape|size|logo|text|"
    r"word|flag|animal|object|item|time|price|score)s?|^where|^whose",
    rf"{_ASKS} .{{0,80}}?\b(?:wear|hold|carry|point|look|sitt|stand|ly|sleep|hang)ing",
    rf"{_ASKS} .{{0,80}}?\b(?:written|printed|painted|displayed|parked)",
    rf"{_ASKS} .{{0,80}}?\b(?:sign|label|text|board) .{{0,40}}?say",
    rf"{_ASKS} .{{0,80}}?\b(?:on|under|behind|above|beside|next to|in front of)",
)


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in patterns))


RULES: tuple[tuple[Scope, re.Pattern[str], str], ...] = (
    ("whole video", _any_of(_WHOLE_VIDEO), ""),
    ("several moments", _any_of(_SEVERAL_MOMENTS), ""),
    ("one moment", _any_of(_TIMES), ", a time, which no sampler seeks"),
    ("one moment", _any_of(_ONE_MOMENT), ""),
)
"""Scope, signs of it, and what is to be said of them. The first that fits decides: "summarise what
happens after the goal" is about the whole video."""


def scope_of_words(question: str) -> Reading | None:
    """What the question's words say; None where no rule fits.

    The rules know English. What is quoted is not the question's own and is passed over, and so is
    "in this video," at its start.
    """
    text = question[:MOST_READ_CHARS].casefold().replace("’", "'")
    text = _LEAD_IN.sub("", _QUOTED.sub(" ", text).strip())
    text = _VERB_LAST.sub(r"\1", text)
    for scope, pattern, remark in RULES:
        found = pattern.search(text)
        if found:
            return Reading(scope, f'"{found[0].strip()}"{remark}')
    return None


LOWEST_MAXIMUM = 5.0
"""In deviations: among an hour's independent normal scores the highest reaches about 3.6."""
LOWEST_PEAK = 4.0
PEAK_SHARE = 0.8
"""Of the maximum, above the median. Chosen on videos with one, two and four moments
(benchmarks/needles.py), where lower shares count look-alikes more often."""
SHORTEST_GAP_S = 3.0
GAP_SHARE = 0.02
"""Of the video's length: peaks closer than this, or than three seconds, are one moment."""


@dataclass(frozen=True, slots=True)
class ScoreShape:
    """How a question's scores lie over time."""

    height: float
    """The maximum, in robust standard deviations above the median; at most 1000."""
    num_peaks: int
    """Stretches of time, apart from each other, in which scores come near the maximum."""


def score_shape(scores: FloatArray, times_s: TimeArray) -> ScoreShape:
    """The shape of `scores` `[C]`, finite and not constant, at `times_s` (float64, increasing)."""
    exact = scores.astype(np.float64)
    above = exact - np.median(exact)
    highest = float(above.max())
    # The floor keeps scores that are flat but for their peaks from dividing by nothing.
    deviation = max(1.4826 * float(np.median(np.abs(above))), 1e-3 * highest, 1e-12)
    level = max(PEAK_SHARE * highest, LOWEST_PEAK * deviation)
    peaks_s = times_s[above >= min(level, highest)]
    gap_s = max(SHORTEST_GAP_S, GAP_SHARE * float(times_s[-1] - times_s[0]))
    num_peaks = 1 + int(np.count_nonzero(np.diff(peaks_s) > gap_s))
    return ScoreShape(highest / deviation, num_peaks)


def scope_of_scores(scores: FloatArray, times_s: TimeArray) -> Reading:
    """What the scores say: one peak or more. Arguments as in `score_shape`.

    Without a peak it is several moments: scores in which nothing stands out still find more than
    chance does, and a sampler for several moments follows them and covers the video too.
    """
    shape = score_shape(scores, times_s)
    if shape.height < LOWEST_MAXIMUM:
        return Reading("several moments", "no score stands out")
    if shape.num_peaks == 1:
        return Reading("one moment", "scores with one peak")
    return Reading("several moments", f"scores with {shape.num_peaks} peaks")
