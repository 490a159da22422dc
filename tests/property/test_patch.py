"""A recorded patch, applied by somebody else to the original, gives the pod that we made."""

from __future__ import annotations

from typing import Any, TypeAlias

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from webhook.patch import APPEND, PathPart, PodPatch

Step: TypeAlias = tuple[str, tuple[PathPart, ...], Any]

KEYS = st.one_of(
    st.sampled_from(["a", "b", "spec", "kamiwaza.ai/placed", "~", "/", "~1", "~0/~", "", "0", "-1", "é", "a b"]),
    st.text(max_size=4).filter(lambda key: key != APPEND),  # no key in a pod: it stands for the end of a list
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=4))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@st.composite
def steps(draw: st.DrawFn, pod: Any) -> Step | None:
    """A change somewhere in `pod`, or under keys that are missing there; None where the way ends at a scalar."""
    path: list[PathPart] = []
    here = pod
    while True:
        if isinstance(here, dict):
            key = draw(st.one_of(st.sampled_from(sorted(here)), KEYS) if here else KEYS)
            path.append(key)
            here = here.get(key)
        elif isinstance(here, list) and here and draw(st.booleans()):
            index = draw(st.integers(0, len(here) - 1))
            path.append(index)
            here = here[index]
        elif isinstance(here, list):
            path.append(APPEND)
            return "set", tuple(path), draw(VALUES)
        elif here is None:
            path += draw(st.lists(KEYS, max_size=2))
            path += draw(st.sampled_from([[], [APPEND]]))
            return "set", tuple(path), draw(VALUES)
        else:
            return draw(st.sampled_from(["set", "remove"])), tuple(path), draw(VALUES)
        if draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from(["set", "remove"])), tuple(path), draw(VALUES)


@given(OBJECTS, st.data())
def test_the_patch_applied_to_the_original_equals_the_copy(pod: dict[str, Any], data: st.DataObject) -> None:
    patch = PodPatch(pod)
    for _ in range(data.draw(st.integers(1, 6))):
        step = data.draw(steps(patch.pod))
        assert step is not None
        what, path, value = step
        if what == "set":
            patch.set(value, *path)
            if path[-1] != APPEND:
                assert patch.get(*path) == value
        else:
            patch.remove(*path)
    assert jsonpatch.apply_patch(pod, patch.ops) == patch.pod


@given(OBJECTS, st.lists(KEYS, min_size=1, max_size=4), VALUES)
def test_setting_twice_changes_once(pod: dict[str, Any], keys: list[str], value: Any) -> None:
    patch = PodPatch({"free": {}, **{key: part for key, part in pod.items() if key != "free"}})
    patch.set(value, "free", *keys)
    recorded = len(patch.ops)
    patch.set(value, "free", *keys)
    assert len(patch.ops) == recorded
