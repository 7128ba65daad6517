import assert from "node:assert/strict";
import { test } from "node:test";

import { Blocks } from "../../web/static/blocks.js";

function split(text) {
  const blocks = new Blocks();
  return [...blocks.grow(text), ...blocks.finish()];
}

const TEXTS = {
  "paragraphs part at blank lines": ["one\nstill one\n\n", "two\n\n", "three"],
  "a fence is a block of its own": ["words\n", "```python\na\n\nb\n```\n", "after\n"],
  "a fence ends only at its own marker": ["````\n```\nx\n\n```\n````\n", "after"],
  "tildes fence too": ["~~~\n```\n\n~~~\n", "after"],
  "a list with blank lines stays together": ["- a\n\n- b\n\n  more of b\n\n", "after"],
  "code inside a list stays in it": ["1. a\n\n   ```sh\n   x\n\n   y\n   ```\n\n2. b\n\n", "after"],
  "a heading begins a block": ["text\n", "## Heading\nmore\n\n", "end"],
  "mathematics with blank lines stays together": ["$$\na\n\nb\n$$\n\n", "after"],
  "indented code stays together": ["    a\n\n    b\n\n", "after"],
  "a table stays together": ["| a |\n|---|\n| 1 |\n\n", "after"],
  "inline backticks open no fence": ["```not a fence``` and text\n\n", "after"],
};

for (const [name, blocks] of Object.entries(TEXTS)) {
  test(name, () => assert.deepEqual(split(blocks.join("")), blocks));
}

test("text that comes letter by letter gives the same blocks", () => {
  for (const expected of Object.values(TEXTS)) {
    const text = expected.join("");
    const blocks = new Blocks();
    const done = [];
    for (let length = 1; length <= text.length; length += 1) done.push(...blocks.grow(text.slice(0, length)));
    assert.deepEqual([...done, ...blocks.finish()], expected);
  }
});

test("a paragraph parts from a list before its line is whole", () => {
  const blocks = new Blocks();
  assert.deepEqual(blocks.grow("- a\n\n1"), []);
  assert.deepEqual(blocks.grow("- a\n\n17 words"), ["- a\n\n"]);
  assert.equal(blocks.open, "17 words");
});

test("an open fence is known by its language", () => {
  const blocks = new Blocks();
  blocks.grow("text\n\n```python title\nx");
  assert.equal(blocks.openFence, "python");
  blocks.grow("text\n\n```python title\nx\n```\nmore");
  assert.equal(blocks.openFence, null);
});

test("a megabyte in small pieces is cut within two seconds", () => {
  const blocks = new Blocks();
  const line = "- an item of a very long list\n";
  const began = process.cpuUsage();
  let text = "";
  for (let count = 0; text.length < 1_000_000; count += 1) {
    text += line;
    if (count % 20 === 0) blocks.grow(text);
  }
  assert.ok(process.cpuUsage(began).user < 2_000_000); // of work: others may use the machine too
});
