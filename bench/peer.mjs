// Runs the peer and cellar in turns and prints medians and ratios as a table. Started by peer.sh, which says the flags.
//   node peer.mjs BUILD [flags] [ITEM ...]
import {execFileSync} from "node:child_process";
import {appendFileSync, existsSync, mkdirSync, rmSync} from "node:fs";
import os from "node:os";

const build = process.argv[2];
const args = process.argv.slice(3);
const number = (name, fallback) => {
    const i = args.indexOf("--" + name);
    return i < 0 ? fallback : Number(args.splice(i, 2)[1]);
};
const given = (name) => {
    const i = args.indexOf("--" + name);
    return i >= 0 && args.splice(i, 1).length === 1;
};
const pairs = number("pairs", 5), threads = number("threads", 2), noPack = given("no-pack"), keepModels = given("keep-models");

// What a run may differ in read bandwidth from before to after.
const CALM = 1.15;

const ITEMS = [
    "qwen2-0.5b:Q4_0:0:f16", "qwen2-0.5b:Q8_0:0:f16", "qwen2-0.5b:Q4_K:0:f16", "qwen2-0.5b:F16:0:f16",
    "qwen2-0.5b:Q4_0:8192:f16", "qwen2-0.5b:Q4_0:8192:q8_0",
    "llama-3.2-1b:Q4_0:0:f16", "llama-3.2-1b:Q8_0:0:f16", "llama-3.2-1b:Q4_K:0:f16", "llama-3.2-1b:F16:0:f16",
    "llama-3.2-1b:Q4_0:8192:q8_0",
];

const median = (x) => x.length ? [...x].sort((a, b) => a - b)[Math.floor(x.length / 2)] : NaN;
const say = (text) => process.stderr.write(text + "\n");
const folder = `${build}/bench-models`, log = `${build}/peer/runs.jsonl`;
mkdirSync(folder, {recursive: true});

function parse(item) {
    const [shape, format, depth = "0", cache = "f16"] = item.split(":");
    if (!shape || !format || !/^\d+$/.test(depth)) {
        say(`'${item}' is no SHAPE:FORMAT:DEPTH:CACHE`);
        process.exit(2);
    }
    return {item, shape, format, depth: Number(depth), cache, path: `${folder}/${shape}-${format}.gguf`};
}

function run(program, list) {
    const out = execFileSync(program, list, {encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], cwd: `${build}/peer`, maxBuffer: 1 << 26});
    return JSON.parse(out.trim().split("\n").pop());
}

// A pair: the peer, then cellar, on the same work.
function pair(work) {
    // Behind a depth the long prompt is read anew in every run, so that one repetition has to do.
    const common = ["--prompt", "512", "--gen", work.depth > 0 ? "32" : "64", "--depth", String(work.depth), "--threads", String(threads), "--reps", work.depth > 0 ? "1" : "3"];
    const peer = run("node", ["bench.mjs", work.path, ...common, "--type-k", work.cache, "--type-v", work.cache]);
    const own = run(`${build}/cellar`, ["bench", work.path, ...common, "--cache-type", work.cache, "--json", ...(noPack ? ["--no-pack"] : [])]);
    const drift = Math.max(own.read_bandwidth_before, own.read_bandwidth_after) / Math.min(own.read_bandwidth_before, own.read_bandwidth_after);
    const record = {item: work.item, pack: !noPack, calm: drift <= CALM, peer, own};
    appendFileSync(log, JSON.stringify(record) + "\n");
    return record;
}

function measure(work) {
    if (!existsSync(work.path)) execFileSync(`${build}/make_model`, ["--like", work.shape, "--format", work.format, "--out", work.path], {stdio: "inherit"});
    const all = [];
    const calm = () => all.filter((r) => r.calm);
    while (calm().length < pairs && all.length < 2 * pairs) {
        const r = pair(work);
        all.push(r);
        say(`${work.item} ${all.length}: prompt ${r.own.prompt_tokens_per_second.toFixed(1)} / ${r.peer.prompt_tokens_per_second}, generate `
            + `${r.own.generate_tokens_per_second.toFixed(2)} / ${r.peer.generate_tokens_per_second}, share ${r.own.share_of_bandwidth.toFixed(2)}`
            + (r.calm ? "" : `, thrown away: bandwidth ${r.own.read_bandwidth_before.toFixed(1)} before, ${r.own.read_bandwidth_after.toFixed(1)} after`));
    }
    // A machine that is never calm still shows what it did, with a mark.
    const kept = calm().length > 0 ? calm() : all;
    const of = (get) => median(kept.map(get));
    const prompt = [of((r) => r.own.prompt_tokens_per_second), of((r) => r.peer.prompt_tokens_per_second)];
    const generate = [of((r) => r.own.generate_tokens_per_second), of((r) => r.peer.generate_tokens_per_second)];
    return `| ${work.shape} | ${work.format} | ${work.depth} | ${work.cache} | ${prompt[0].toFixed(0)} | ${prompt[1].toFixed(0)} | ${(prompt[0] / prompt[1]).toFixed(2)} `
        + `| ${generate[0].toFixed(1)} | ${generate[1].toFixed(1)} | ${(generate[0] / generate[1]).toFixed(2)} | ${of((r) => r.own.generate_gigabytes_per_second).toFixed(1)} `
        + `| ${of((r) => r.own.share_of_bandwidth).toFixed(2)} | ${calm().length > 0 ? "" : "~"}${calm().length} of ${all.length} |`;
}

const works = (args.length ? args : ITEMS).map(parse);
console.log(`${os.cpus()[0].model}, ${threads} threads, load ${os.loadavg()[0].toFixed(1)}, weights ${noPack ? "as in the file" : "packed"}; tokens per second, cellar and peer`);
console.log("\n| model | weights | depth | cache | prompt | peer | ratio | generate | peer | ratio | GB/s | share of bandwidth | calm pairs |");
console.log("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
let wild = false;
works.forEach((work, i) => {
    const row = measure(work);
    wild ||= row.includes("| ~");
    console.log(row);
    if (!keepModels && !works.slice(i + 1).some((w) => w.path === work.path)) rmSync(work.path);
});
if (wild) console.log("\n~: the read bandwidth moved by more than 15 % in every pair; medians of all of them, of little worth.");
