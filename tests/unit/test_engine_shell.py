"""Shell texts: which commands they start, and what only a running shell could know."""

from __future__ import annotations

import pytest

from shared.core.engines.shell import read_script
from shared.core.engines.words import LONGEST_TEXT, Word


def words_of(text: str, variables: dict[str, str | None] | None = None, *parameters: str) -> list[list[str]]:
    script = read_script(text, variables or {}, [Word(parameter) for parameter in parameters])
    return [[word.text for word in command.words] for command in script.commands]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        pytest.param("vllm serve m", [["vllm", "serve", "m"]], id="words"),
        pytest.param("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]], id="operators"),
        pytest.param("a\nb\n\nc", [["a"], ["b"], ["c"]], id="lines"),
        pytest.param("a \\\n  --b \\\n\t--c 2", [["a", "--b", "--c", "2"]], id="lines-that-go-on"),
        pytest.param("a\r\n--b", [["a"], ["--b"]], id="lines-from-windows"),
        pytest.param("a b\\\nc d\\", [["a", "bc", "d"]], id="a-word-that-goes-on"),
        pytest.param("a # b c\nd", [["a"], ["d"]], id="comment"),
        pytest.param("a b#c", [["a", "b#c"]], id="a-hash-inside-a-word-is-no-comment"),
        pytest.param("""a 'b c' "d e" f\\ g""", [["a", "b c", "d e", "f g"]], id="quotes"),
        pytest.param("""a '{"k": "v"}'""", [["a", '{"k": "v"}']], id="json"),
        pytest.param('a "b\\"c" "d\\e" "f\\\ng"', [["a", 'b"c', "d\\e", "fg"]], id="escapes-in-quotes"),
        pytest.param("a ''", [["a", ""]], id="an-empty-word"),
        pytest.param("a > log 2>&1 < in b", [["a", "b"]], id="redirections-are-no-words"),
        pytest.param("a &> log >> more", [["a"]], id="bash-redirections"),
        pytest.param("a 2 > x", [["a", "2"]], id="a-number-in-front-of-a-blank-is-a-word"),
        pytest.param("cat <<EOF > f\nvllm serve no\nEOF\nb", [["cat"], ["b"]], id="here-document"),
        pytest.param("cat <<-'E O' x\n\ta 'b\n\tE O\nb", [["cat", "x"], ["b"]], id="here-document-with-quoted-end"),
        pytest.param('cat <<"E"\na\nE\nb', [["cat"], ["b"]], id="here-document-with-double-quoted-end"),
        pytest.param("cat <<", [["cat"]], id="here-document-that-is-none"),
        pytest.param("cat <<EOF\nvllm serve no", [["cat"]], id="here-document-without-end"),
        pytest.param("cat <<< word b", [["cat", "b"]], id="here-string"),
        pytest.param("diff <(a b) c", [["diff", "c"]], id="process-substitution"),
        pytest.param("if [ -f x ]; then a; else b; fi", [["[", "-f", "x", "]"], ["a"], ["b"]], id="if"),
        pytest.param("while true; do a; done", [["true"], ["a"]], id="while"),
        pytest.param("for i in 1 2; do a; done; b", [["for", "i", "in", "1", "2"], ["a"], ["b"]], id="for"),
        pytest.param("(a; b)", [["a"], ["b"]], id="subshell"),
        pytest.param("run() { a; }; ! b", [["run"], ["a"], ["b"]], id="function"),
        pytest.param("fi; a", [["a"]], id="an-end-without-a-beginning"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_a_text_is_read_as_its_commands(text: str, commands: list[list[str]]) -> None:
    assert words_of(text) == commands


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param("a $X", "two words", id="plain"),
        pytest.param('a "${X}"', "two words", id="braces"),
        pytest.param('a "pre-$X"', "pre-two words", id="inside-a-word"),
        pytest.param("a ${Y:-none}", "none", id="default-of-an-unset-name"),
        pytest.param("a ${EMPTY:-none}", "none", id="default-of-an-empty-value"),
        pytest.param("a ${EMPTY-none}x", "x", id="an-empty-value-is-a-value-without-the-colon"),
        pytest.param('a "${Y:-${Z:-$X}}"', "two words", id="defaults-of-defaults"),
        pytest.param('a "${Y:-a b}"', "a b", id="a-default-with-a-blank"),
        pytest.param("a ${X:+set}", "set", id="alternative"),
        pytest.param('a "${X:?is needed}"', "two words", id="a-name-that-must-be-set"),
        pytest.param(": ${Y:=4}; a $Y", "4", id="a-default-that-is-kept"),
        pytest.param('a "${Z:-${Y:=4}}"', "4", id="a-default-inside-a-default-that-is-kept"),
        pytest.param("a ${Y:+set}x", "x", id="alternative-of-an-unset-name"),
        pytest.param("Y=4; a $Y", "4", id="set-before"),
        pytest.param("export Y='4'\na $Y", "4", id="exported-before"),
        pytest.param('Y="--tp 2"; Y+=" -q"; a "$Y"', "--tp 2 -q", id="added-to"),
        pytest.param("a $", "$", id="a-dollar-sign-alone"),
        pytest.param('a "5$"', "5$", id="a-dollar-sign-at-the-end-of-quotes"),
        pytest.param("a $'x'", "x", id="dollar-quotes"),
    ],
)
def test_variables_are_put_in(text: str, word: str) -> None:
    script = read_script(text, {"X": "two words", "EMPTY": ""})
    last = script.commands[-1].words
    assert " ".join(each.text for each in last[1:]) == word
    assert all(each.known for each in last)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("$Y", id="a-name-nobody-set"),
        pytest.param("$SECRET", id="a-value-from-a-secret"),
        pytest.param("${SECRET:-2}", id="a-default-does-not-count-where-a-value-is-set-elsewhere"),
        pytest.param("$(nvidia-smi -L | wc -l)", id="output-of-a-command"),
        pytest.param("`hostname`", id="output-in-backquotes"),
        pytest.param("$((2 * 4))", id="arithmetic"),
        pytest.param("$(echo ')' \")\" \\))", id="brackets-in-quotes"),
        pytest.param("${X##*-}", id="a-cut-value"),
        pytest.param("${#X}", id="a-length"),
        pytest.param("${Y:?must be set}", id="a-name-that-must-be-set"),
        pytest.param("$?", id="a-status"),
        pytest.param("${X[@]}", id="an-array"),
        pytest.param("$7", id="a-parameter-that-was-not-given"),
    ],
)
def test_what_only_a_running_shell_knows_is_kept_as_written(expression: str) -> None:
    command = read_script(f"a {expression}", {"X": "x-1", "SECRET": None}).commands[0]
    assert command.words[1] == Word(expression, known=False, single=False)
    quoted = read_script(f'a "{expression}"', {"X": "x-1", "SECRET": None}).commands[0]
    assert (quoted.words[1].known, quoted.words[1].single) == (False, True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("if true; then Y=2; fi; a $Y", id="branch"),
        pytest.param("test -n x && Y=2; a $Y", id="after-a-test"),
        pytest.param("[ -n x ] && true && Y=2; a $Y", id="further-behind-a-test"),
        pytest.param("false || Y=2; a $Y", id="after-or"),
        pytest.param("read Y; a $Y", id="read-from-input"),
        pytest.param("Y=2; unset Y; a $Y", id="unset"),
        pytest.param("Y=$(cat f); a $Y", id="output-of-a-command"),
        pytest.param("Y=(2 3); a $Y", id="an-array"),
        pytest.param("Y=2; Y+=$Z; a $Y", id="something-unknown-added"),
        pytest.param("Y+=2; a $Y", id="added-to-nothing-known"),
    ],
)
def test_a_variable_that_may_have_another_value_is_not_known(text: str) -> None:
    assert read_script(text, {}).commands[-1].words[-1] == Word("$Y", known=False, single=False)


def test_an_assignment_behind_and_is_certain_where_no_test_stands_before_it() -> None:
    assert words_of("cd /x && export Y=2 && a $Y")[-1] == ["a", "2"]


def test_unquoted_values_are_split_and_quoted_ones_are_not() -> None:
    variables: dict[str, str | None] = {"X": " --tp 2 ", "EMPTY": ""}
    assert words_of('a $X b "$X" c$X. $EMPTY "$EMPTY"', variables) == [
        ["a", "--tp", "2", "b", " --tp 2 ", "c", "--tp", "2", ".", ""]
    ]


def test_an_assignment_in_front_of_a_command_counts_for_that_command_alone() -> None:
    first, second = read_script("A=1 B='x y' cmd $A; other $A", {"A": "0"}).commands
    assert [word.text for word in first.words] == ["cmd", "0"]
    assert {name: word.text for name, word in first.env.items()} == {"A": "1", "B": "x y"}
    assert [word.text for word in second.words] == ["other", "0"]
    assert not second.env


def test_programs_see_what_was_exported_or_was_in_the_environment_before() -> None:
    command = read_script("A=1; B=2; export C=3 D; D=4; cmd", {"A": "0"}).commands[-1]
    assert {name: word.text for name, word in command.env.items()} == {"A": "1", "C": "3", "D": "4"}


@pytest.mark.parametrize("expression", ['"$@"', "$@", "$*", '"$1" "$2" "$3"'])
def test_parameters_stand_for_the_words_behind_the_text(expression: str) -> None:
    assert words_of(f"exec {expression}", None, "sh", "vllm", "serve", "a b") == [["exec", "vllm", "serve", "a b"]]


@pytest.mark.parametrize("expression", ['"$@" ', "$@ ", "$* "])
def test_parameters_that_multiply_each_other_end_as_unknown(expression: str) -> None:
    parameters = [Word("sh"), *[Word("x")] * 1000]
    (command,) = read_script(f"a {expression * 1000}", {}, parameters).commands
    assert len(command.words) < LONGEST_TEXT
    assert not command.words[-1].known


def test_no_parameters_are_no_words() -> None:
    assert words_of('a "$@"') == [["a"]]


@pytest.mark.parametrize(
    ("text", "sign"), [("a 'b", "'"), ('a "b', '"'), ("a $(b", "("), ("a ${b", "{"), ('a "$(b', "(")]
)
def test_what_is_not_closed_is_told(text: str, sign: str) -> None:
    script = read_script(text, {})
    assert script.unread[0] == f"everything behind a {sign} that is not closed"
    assert not script.commands[0].words[1].known


def test_nothing_is_read_of_a_text_that_is_too_long() -> None:
    script = read_script("a " * LONGEST_TEXT, {})
    assert script.commands == ()
    assert script.unread == ("a shell text of more than 32 KiB",)


def test_variables_that_multiply_each_other_end_as_unknown() -> None:
    command = read_script("a " + "$X" * 30, {"X": "x" * 10_000}).commands[0]
    assert not command.words[1].known
    assert len(command.words[1].text) < 2 * LONGEST_TEXT


def test_defaults_may_not_be_nested_without_end() -> None:
    text = "a " + "${Y:-" * 40 + "2" + "}" * 40
    assert not read_script(text, {}).commands[0].words[1].known
