"""Lanes of your own: the router picks among them, and each says how its work is to be done."""

import asyncio

from hansard import Hansard, Lane, Roster, Wishes
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted

ROSTER = Roster(
    name="kitchen",
    lanes=(
        Lane(
            name="baking",
            category="kitchen",
            domain="bread, cakes and pastry",
            vocabulary=("bread", "dough", "yeast", "cake", "oven", "flour", "sourdough", "crust"),
            examples=("bake a sourdough loaf", "my dough does not rise"),
            instructions="Give weights in grams.",
        ),
        Lane(
            name="brewing",
            category="kitchen",
            domain="coffee, tea and beer",
            vocabulary=("coffee", "espresso", "tea", "beer", "hops", "brew", "grind"),
            examples=("brew a stronger espresso", "which hops for a pale ale"),
        ),
    ),
)
MODEL = {"entries": [{"match": {"role": "worker"}, "text": "500 g flour, 350 g water, 10 g salt, 100 g starter."}]}


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        wishes = Wishes(roster=ROSTER, judge="checks")
        run = await hansard.submit(
            "bake a sourdough bread with a dark crust", single=True, provider=Scripted(Script.of(MODEL)), wishes=wishes
        )
        print(await run.answer())
        print("lane:", run.show()["tasks"][0]["lane"])


asyncio.run(main())
