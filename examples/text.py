"""A column of text: made notes of three wards, from a CSV file to a model that is taken out and used.

    python examples/text.py
"""

import random
import tempfile
from pathlib import Path

import askew

SIGNS = {"urgent": ["severe pain", "cannot breathe", "heavy bleeding", "chest pain"],
         "routine": ["mild pain", "wants a form", "check of the knee", "asks about pills"]}


def main() -> None:
    draw = random.Random(0)
    lines = ["ward,note,triage"]
    for _ in range(600):
        ward = draw.choice(["heart", "lung", "surgery"])
        triage = "urgent" if draw.random() < {"heart": 0.8, "lung": 0.5, "surgery": 0.1}[ward] else "routine"
        lines.append(f'{ward},"Patient, {draw.randint(20, 90)}: {draw.choice(SIGNS[triage])} since '
                     f'{draw.choice(["today", "Monday", "a week"])}",{triage}')
    with tempfile.TemporaryDirectory() as place:
        notes = Path(place, "notes.csv")
        notes.write_text("\n".join(lines) + "\n")
        recipe = askew.Recipe(data=f"table({str(notes)!r}, label='triage', client='ward', text='note', length=12)",
                              population="natural()", model="bag_of_words(width=16)", client="sgd(lr=0.5)", rounds=10)
        result = askew.run(recipe, out=Path(place, "run"))
        model = askew.load(Path(place, "run"))
        print(f"accuracy at the wards: {result.accuracy:.3f}")
        for note in ("heavy bleeding since today", "asks about pills"):
            print(f"{note}: {model.predict([{'note': note}])[0]}")


if __name__ == "__main__":
    main()
