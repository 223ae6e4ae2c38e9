"""Writes conversations for the engine's own recall test, one JSON object on a line: distance, kind, messages, answer.

    python3 make_cases.py --each 70 --out ../../tests/data/recall_cases.jsonl
"""
import argparse
import json
import random

import train
import evaluate


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--each", type=int, default=70, help="conversations for each distance")
    a.add_argument("--seed", type=int, default=20240)
    a.add_argument("--distances", default="200,800,1800")
    a.add_argument("--out", required=True)
    a = a.parse_args()
    sp, rng = train.tokenizer(), random.Random(a.seed)
    with open(a.out, "w") as f:
        for i in range(a.each):
            for distance in map(int, a.distances.split(",")):
                kind = evaluate.KINDS[i % 3]
                turns, answer = evaluate.trial(sp, rng, distance, kind)
                messages = [{"role": role, "content": text} for role, text in turns]
                f.write(json.dumps({"distance": distance, "kind": kind, "messages": messages, "answer": answer}) + "\n")


if __name__ == "__main__":
    main()
