"""Whatever was missed, repeated or seen in another order, the ledger ends as the pods say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.ledger_rules import Review, Sightings, review_ledger
from shared.core.ledger import Entry, Mark
from shared.core.pods import PodFacts
from tests.unit.core_builders import entry

TTL_S, KEPT_S = 20.0, 30.0
IDS = ("aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc", "no id")

shares = st.dictionaries(st.integers(0, 1), st.integers(1, 9), max_size=2)
entries = st.builds(
    lambda held, namespace, mark: replace(entry(held, namespace), mark=mark),
    st.dictionaries(st.integers(0, 1), st.integers(1, 9), min_size=1, max_size=2),
    st.sampled_from(["models", "other"]),
    st.sampled_from(Mark),
)
ledgers = st.dictionaries(st.sampled_from(IDS[:3]), entries, max_size=3)
pods = st.builds(
    PodFacts,
    key=st.sampled_from(["pod-1", "pod-2", "pod-3"]),
    namespace=st.sampled_from(["models", "other"]),
    name=st.just("pod"),
    node=st.just("node"),
    bound=st.booleans(),
    shares=shares.map(lambda each: tuple(sorted(each.items()))),
    reservation=st.one_of(st.none(), st.sampled_from(IDS)),
    created=st.sampled_from(["", "2026-11-30T10:00:00Z", "2026-11-30T10:00:01Z"]),
)
lefts = st.sets(st.sampled_from(IDS[:3]))
views = st.lists(pods, max_size=4).map(lambda each: {pod.key: pod for pod in each})


def reviewed(
    ledger: Mapping[str, Entry],
    view: Mapping[str, PodFacts],
    seen: Sightings,
    now: float,
    left: Collection[str] = frozenset(),
) -> Review:
    unix_now = entry({}).since + now
    return review_ledger(ledger, view, seen, now, TTL_S, unix_now=unix_now, left=frozenset(left), kept_s=KEPT_S)


def applied(
    ledger: Mapping[str, Entry], review: Review, *, gone: bool = False, wanted: bool = True
) -> dict[str, Entry]:
    """The ledger after the changes of a review.

    If `gone`, it is without the overdue entries, for which no pod was found. Vacant seats are kept if `wanted`.
    """
    seats = {each: replace(ledger[each], mark=Mark.KEPT) if wanted else None for each in review.vacant}
    changes = {**review.changes, **(dict.fromkeys(review.overdue) if gone else {}), **seats}
    merged = {**ledger, **changes}
    return {reservation: each for reservation, each in merged.items() if each is not None}


def expected(
    before: Mapping[str, Entry], view: Mapping[str, PodFacts]
) -> dict[str, tuple[str, tuple[tuple[int, int], ...]]]:
    """By id, namespace and shares of the oldest pod that carries it, in the namespace of its entry if there is one."""
    holding = [pod for pod in view.values() if pod.shares and pod.reservation in IDS[:3]]
    oldest: dict[str, PodFacts] = {}
    for pod in sorted(holding, key=lambda pod: (pod.created, pod.key), reverse=True):
        oldest[str(pod.reservation)] = pod
    for pod in sorted(holding, key=lambda pod: (pod.created, pod.key), reverse=True):
        entry = before.get(str(pod.reservation))
        if entry is not None and entry.namespace == pod.namespace:
            oldest[str(pod.reservation)] = pod
    return {reservation: (pod.namespace, pod.shares) for reservation, pod in oldest.items()}


@given(
    ledgers,
    st.lists(
        st.tuples(views, ledgers, lefts, st.floats(0, 30), st.booleans(), st.booleans(), st.booleans()), max_size=6
    ),
    views,
    lefts,
)
def test_any_history_converges_to_what_the_pods_say(
    ledger: dict[str, Entry],
    history: list[tuple[dict[str, PodFacts], dict[str, Entry], set[str], float, bool, bool, bool]],
    final: dict[str, PodFacts],
    left: set[str],
) -> None:
    seen, now = Sightings(), 0.0
    for view, written, left_now, passed_s, write_succeeds, wanted, new_leader in history:
        now += passed_s
        if new_leader:
            seen = Sightings()
        ledger = {**ledger, **written}
        review = reviewed(ledger, view, seen, now, left_now)
        if write_succeeds:
            ledger = applied(ledger, review, gone=True, wanted=wanted)
    before = ledger
    for _ in range(4):
        review = reviewed(ledger, final, seen, now, left)
        ledger = applied(ledger, review, gone=True)
        now += max(TTL_S, KEPT_S)
    assert {each: (entry.namespace, entry.shares) for each, entry in ledger.items()} == expected(before, final)
    assert reviewed(ledger, final, seen, now, left) == Review({}, (), None)


@given(ledgers, views)
def test_one_review_after_another_changes_nothing_more(ledger: dict[str, Entry], view: dict[str, PodFacts]) -> None:
    seen = Sightings()
    ledger = applied(ledger, reviewed(ledger, view, seen, 0.0))
    again = reviewed(ledger, view, seen, 0.0)
    assert again.changes == {}
    assert again.overdue == ()


@given(ledgers, views, st.floats(0, TTL_S - 1))
def test_a_live_pod_never_loses_its_entry_and_a_young_entry_is_never_dropped(
    ledger: dict[str, Entry], view: dict[str, PodFacts], passed_s: float
) -> None:
    seen = Sightings()
    reviewed(ledger, view, seen, 0.0)
    review = reviewed(ledger, view, seen, passed_s)
    assert None not in review.changes.values()
    assert review.overdue == ()


@given(ledgers, st.lists(pods, max_size=4, unique_by=lambda pod: pod.key))
def test_the_order_of_the_pods_makes_no_difference(ledger: dict[str, Entry], each: list[PodFacts]) -> None:
    def review(order: list[PodFacts]) -> Review:
        return reviewed(ledger, {pod.key: pod for pod in order}, Sightings(), 0.0)

    assert review(each) == review(each[::-1])
