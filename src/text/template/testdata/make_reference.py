#!/usr/bin/env python3
"""Renders every template of reference.json with Jinja2, with the settings of model libraries, and writes the outcomes back.

Needs Debian's python3-jinja2. New templates: add [template, null] to "cases" and run this. Only templates whose outcome is the same on every run
belong here: no addresses, no dates.
"""
import datetime
import json
import pathlib

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise ValueError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2026, 1, 31).strftime
    return env


def outcome(env, template, variables):
    try:
        return {"text": env.from_string(template).render(**variables)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    path = pathlib.Path(__file__).with_name("reference.json")
    data = json.loads(path.read_text())
    env = environment()
    data["cases"] = [[template, outcome(env, template, data["variables"])] for template, _ in data["cases"]]
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in data["cases"])
    path.write_text('{"variables": ' + json.dumps(data["variables"]) + ',\n"cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
