"""The planner: whatever the order in which visits end, those nodes of an acyclic graph are visited that a taken way leads to."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from flowstone.authoring.requests import Site
from flowstone.graph.building import Places, build
from flowstone.graph.model import Model
from flowstone.graph.planner import Planner, TooManyVisits, Visit
from flowstone.graph.references import read


def model_of(nodes: dict[str, Any], **options: Any) -> Model:
    return build("planned", nodes, Places(Site("test.py", 1)), read, **options)


def random_graph(random: Random, joins: tuple[str, ...]) -> dict[str, Any]:
    """Nodes in an order in which edges only lead forward; each is reached from an earlier one."""
    count = random.randint(2, 12)
    nodes: dict[str, Any] = {}
    for place in range(count):
        later = [f"n{other}" for other in range(place + 1, count)]
        picked = [one for one in later if random.random() < 0.3]
        node: dict[str, Any] = {"run": "work", "join": random.choice(joins)}
        if random.random() < 0.4:
            node["next"] = {
                key: [one for one in picked if random.random() < 0.6] for key in ("a", "b", "c")[: random.randint(1, 3)]
            }
        else:
            node["next"] = picked
        if later and random.random() < 0.2:
            node["on_error"] = random.choice(later)
        nodes[f"n{place}"] = node
    targets = {t for n in nodes.values() for t in targets_in(n)}
    nodes["n0"]["next"] = [*targets_in(nodes["n0"])] if isinstance(nodes["n0"]["next"], dict) else nodes["n0"]["next"]
    nodes["n0"]["next"] += [id for id in nodes if id not in targets and id != "n0" and id not in nodes["n0"]["next"]]
    nodes["n0"]["next"] = list(dict.fromkeys(nodes["n0"]["next"]))
    return nodes


def targets_in(node: dict[str, Any]) -> list[str]:
    ways = node["next"].values() if isinstance(node["next"], dict) else [node["next"]]
    return [target for way in ways for target in way] + ([node["on_error"]] if "on_error" in node else [])


def outcome(node: dict[str, Any], random: Random) -> list[str]:
    """How a node ends: the targets that it takes."""
    if "on_error" in node and random.random() < 0.5:
        return [node["on_error"]]
    return random.choice([*node["next"].values()]) if isinstance(node["next"], dict) else node["next"]


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_ends_visits_what_the_taken_ways_lead_to(seed: int) -> None:
    for number in range(50):
        random = Random(seed * 1000 + number)
        nodes = random_graph(random, ("all", "all", "any") if number % 2 else ("all",))
        taken = {id: outcome(node, random) for id, node in nodes.items()}
        expected: set[str] = set()
        for id in nodes:  # in an order in which what comes before is known
            if id == "n0" or any(id in taken[other] for other in expected):
                expected.add(id)
        planner = Planner(model_of(nodes))
        going_on = planner.begin()
        while going_on:
            ended = going_on.pop(random.randrange(len(going_on)))
            begun = planner.ended(ended, taken[ended.node])
            for visit in begun:
                if all(node["join"] == "all" for node in nodes.values()):
                    still = {one.node for one in going_on}
                    assert not any(visit.node in ways_from(taken, other) for other in still), "it did not wait"
            going_on += begun
        assert planner.visits == Counter(expected)
        assert planner.may_come() == set()


def ways_from(taken: dict[str, list[str]], node: str) -> set[str]:
    found, stack = set(), [node]
    while stack:
        for target in taken[stack.pop()]:
            if target not in found:
                found.add(target)
                stack.append(target)
    return found


def test_a_loop_begins_a_new_round_at_once_and_its_joins_wait_inside_the_round() -> None:
    planner = Planner(
        model_of(
            {
                "begin": {"run": "work", "next": ["slow", "quick"]},
                "slow": {"run": "work", "next": "join"},
                "quick": {"run": "work", "next": "join"},
                "join": {"run": "work", "next": {"again": "begin", "done": []}},
            },
            start="begin",
        )
    )
    for number in range(3):
        (begin,) = planner.begin() if number == 0 else planner.ended(Visit("join", number - 1), ["begin"])
        assert begin == Visit("begin", number)
        assert [visit.node for visit in planner.ended(begin, ["slow", "quick"])] == ["slow", "quick"]
        assert planner.ended(Visit("quick", number), ["join"]) == []
        assert planner.ended(Visit("slow", number), ["join"]) == [Visit("join", number)]


def test_a_join_of_the_first_ignores_what_comes_later_of_the_same_round_only() -> None:
    planner = Planner(
        model_of(
            {
                "begin": {"run": "work", "next": ["slow", "quick"]},
                "slow": {"run": "work", "next": "join"},
                "quick": {"run": "work", "next": "join"},
                "join": {"run": "work", "join": "any", "next": {"again": "begin", "done": []}},
            },
            start="begin",
        )
    )
    planner.ended(planner.begin()[0], ["slow", "quick"])
    assert planner.ended(Visit("quick", 0), ["join"]) == [Visit("join", 0)]
    assert planner.ended(Visit("join", 0), ["begin"]) == [Visit("begin", 1)]
    planner.ended(Visit("begin", 1), ["slow", "quick"])
    assert planner.ended(Visit("slow", 0), ["join"]) == [], "late, of the first round"
    assert planner.ended(Visit("slow", 1), ["join"]) == [Visit("join", 1)], "the first of the second round"
    assert planner.ended(Visit("quick", 1), ["join"]) == []


def test_a_loop_is_bounded() -> None:
    planner = Planner(model_of({"a": {"run": "work", "next": {"again": "a", "done": []}, "max_visits": 3}}, start="a"))
    (visit,) = planner.begin()
    (visit,) = planner.ended(visit, ["a"])
    (visit,) = planner.ended(visit, ["a"])
    with pytest.raises(TooManyVisits, match="visited 3 times"):
        planner.ended(visit, ["a"])
