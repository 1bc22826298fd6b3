"""What starters and doors say to each other."""

from __future__ import annotations

from orlop.agent.ranks.wire import BESIDE, Answer, Hello


def test_a_hello_arrives_as_it_was_said():
    said = Hello(3, 77, "5.0", "8(x2)", 1, ("/run/pmix", "/tmp/a b"))
    assert vars(Hello.decoded(said.encoded())) == vars(said)
    beside = Hello(9, kind=BESIDE)
    assert vars(Hello.decoded(beside.encoded())) == vars(beside)


def test_an_answer_arrives_as_it_was_said():
    env = {"A": "1=2", "EMPTY": "", "LINES": "a\nb", "RAW": "\udcff"}
    user = (1000, 1000, [7, 8])
    said = Answer(["sh", "", "-c"], env, "/srv", True, user, (1, 12), b"\0\1" * 8, "")
    data = said.encoded()
    assert int.from_bytes(data[:4], "little") == len(data) - 4
    assert vars(Answer.decoded(data[4:])) == vars(said)
    refused = Answer([], {}, error="no room", is_told=False)
    assert vars(Answer.decoded(refused.encoded()[4:])) == vars(refused)
