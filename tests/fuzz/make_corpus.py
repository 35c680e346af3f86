#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets: for each format some good files and typical bad ones.

usage: tests/fuzz/make_corpus.py

Seeds are small, since a fuzzer changes a byte at a time, and each shows a form or a mistake that none of the
others has. Names that begin with bad_ are of files that have to be refused. What the fuzzer found later is in regressions/, which this script leaves alone.
"""
import json
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parent / "corpus"


def put(target, name, content):
    path = ROOT / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(content)


def hostfiles():
    put("hostfile", "slots", "# two nodes\nnode1 slots=8\nnode2 slots=8 max_slots=16\n")
    put("hostfile", "mpich", "node1:4\r\nnode-2.example.org:2\r\n")
    put("hostfile", "pbs", "n1\nn1\nn2\n\nn1  # again\n")
    put("hostfile", "bom", b"\xef\xbb\xbfnode1 slots=1\n")
    put("hostfile", "most", "a slots=1000000 max-slots=1000000\n")
    put("hostfile", "bad_twice", "node1 slots=2\nnode1 slots=2\n")
    put("hostfile", "bad_count", "node1 slots=0\n")
    put("hostfile", "bad_name", "-oProxyCommand=x slots=1\n")
    put("hostfile", "bad_word", "node1 slots=1 gpus=2\n")
    put("hostfile", "bad_bytes", b"node\x1b[31m\x00\xff slots=1\n")
    put("hostfile", "bad_empty", "")


def jsons():
    put("json", "all", '{"a": [1, -2.5e3, true, false, null, "x"], "b": {"c": {}}, "d": []}')
    put("json", "strings", r'["\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00", "' + "é你" + '"]')
    put("json", "numbers", '[0, -0, 1e308, 9223372036854775807, -9223372036854775808, 1.0e2, 123456789012345678901]')
    put("json", "integers", '[5e8, 2.0, 2.5, 1200e-2, 0.0001e4, 1e-1, 922337203685477580700e-2]')
    put("json", "comments", '// one\n{/* two */"a": 1, # three\n"b": [1, 2,],}\n')
    put("json", "many", "{" + ",".join(f'"k{i}":{i}' for i in range(40)) + "}")
    put("json", "deep", "[" * 60 + "]" * 60)
    put("json", "bad_deep", "[" * 80)
    put("json", "bad_twice", '{"a": 1, "a": 2}')
    put("json", "bad_control_twice", '{"\\u001b[2J\\n": 1, "\\u001b[2J\\n": 2}')
    put("json", "bad_many_twice", "{" + ",".join(f'"k{i % 39}":{i}' for i in range(40)) + "}")
    put("json", "bad_surrogate", r'["\ud83d\u0041"]')
    put("json", "bad_utf8", b'["\xc0\xaf\xed\xa0\x80"]')
    put("json", "bad_key", '{"\\u0000": 1}')
    put("json", "bad_number", "[01]")
    put("json", "bad_big_number", "[1e400]")
    put("json", "bad_end", '{"a": "never')
    put("json", "bom", b"\xef\xbb\xbf{}")


def safetensors_file(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors():
    f32 = struct.pack("<4f", 1, -2, 0.5, float("nan"))
    two = {"__metadata__": {"format": "pt"}, "a": entry("F32", [2, 2], 0, 16), "b": entry("BF16", [3], 16, 22)}
    put("safetensors", "two", safetensors_file(two, f32 + b"\x80\x3f\x00\x40\xc0\x7f"))
    put("safetensors", "scalar", safetensors_file({"s": entry("F64", [], 0, 8)}, struct.pack("<d", 3)))
    put("safetensors", "empty_tensor", safetensors_file({"e": entry("F16", [0, 7], 0, 0)}, b""))
    put("safetensors", "none", safetensors_file({}, b""))
    put("safetensors", "integers", safetensors_file(
        {"i": entry("I64", [1], 0, 8), "u": entry("U8", [3], 8, 11), "t": entry("BOOL", [1], 11, 12)}, bytes(12)))
    put("safetensors", "small_floats", safetensors_file(
        {"f4": entry("F4", [4], 0, 2), "f8": entry("F8_E4M3", [2], 2, 4)}, bytes(4)))
    put("safetensors", "names", safetensors_file({"\x1b[31m\n": entry("U8", [1], 0, 1), "": entry("U8", [1], 1, 2)}, b"xy"))
    put("safetensors", "bad_hole", safetensors_file({"a": entry("U8", [1], 1, 2)}, b"xy"))
    put("safetensors", "bad_overlap", safetensors_file(
        {"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, b"xyz"))
    put("safetensors", "bad_size", safetensors_file({"a": entry("F32", [2], 0, 4)}, b"wxyz"))
    put("safetensors", "bad_product", safetensors_file({"a": entry("F32", [2**40, 2**40], 0, 4)}, b"wxyz"))
    put("safetensors", "bad_offset", safetensors_file({"a": entry("U8", [1], 2**63, 2**63 + 1)}, b"x"))
    put("safetensors", "bad_dtype", safetensors_file({"a": entry("F33", [1], 0, 4)}, b"wxyz"))
    put("safetensors", "bad_key", safetensors_file({"a": {**entry("U8", [1], 0, 1), "x": 1}}, b"x"))
    put("safetensors", "bad_metadata", safetensors_file({"__metadata__": {"a": 1}}, b""))
    put("safetensors", "bad_twice", safetensors_file(
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"))
    put("safetensors", "bad_length", safetensors_file({}, b"", length=2**62))
    put("safetensors", "bad_limit", safetensors_file({}, b"", length=100000001))
    put("safetensors", "bad_cut", safetensors_file(two, f32))
    put("safetensors", "bad_longer", safetensors_file({}, b"x"))
    put("safetensors", "bad_short", b"\x02\x00\x00\x00\x00")


def manifest(files=None, tensors=None, sections='"engine":{"step":3},\n"train":{}', version=1, **members):
    """A manifest but for the hash in its last line, which the target makes right."""
    files = [("rank-00000.safetensors", 128, 64), ("rank-00001.safetensors", 112, 64)] if files is None else files
    tensors = [("wte", [3, 4], [(0, 64, 0, 10), (1, 64, 10, 12)]), ("optim.exp_avg.b", [10], [(1, 72, 0, 10)]),
               ("none", [0, 7], [])] if tensors is None else tensors
    head = {"format": "cero checkpoint", "version": version, "id": "0123456789abcdef0123456789abcdef", "run": "00ff",
            "step": 3, "block_nbytes": 16,
            "mesh": {"world_size": 2, "dp": 2, "tp": 1, "pp": 1, "sp": 1, "zero_stage": 3}}
    head["files"] = [{"name": name, "nbytes": nbytes, "header_nbytes": header, "header_xxh3": "00ff00ff00ff00ff"}
                     for name, nbytes, header in files]
    head["tensors"] = [{"name": name, "dtype": "f32", "shape": shape, "ranges": [
        {"file": f, "offset": o, "begin": b, "end": e, "xxh3": ["00ff00ff00ff00ff"] * -(-(e - b) * 4 // 16)}
        for f, o, b, e in ranges]} for name, shape, ranges in tensors]
    head.update(members)
    lines = [f'"{key}":{json.dumps(value, separators=(",", ":"))}' for key, value in head.items()]
    if sections:
        lines.append(sections)
    return "{" + ",\n".join(lines) + ',\n"xxh3":"0000000000000000"}\n'


def manifests():
    one = [("a.safetensors", 64, 8)]
    put("manifest", "two_ranks", manifest())
    put("manifest", "empty", manifest([], [], ""))
    put("manifest", "one", manifest(one, [("w\u00e9 \"", [2, 1, 1, 1, 1, 1], [(0, 8, 0, 2)])], ""))
    put("manifest", "touching", manifest(one, [("b", [2], [(0, 16, 0, 1), (0, 8, 1, 2)]), ("a", [], [(0, 12, 0, 1)])]))
    put("manifest", "bad_version", manifest(version=2))
    put("manifest", "bad_format", manifest(format="checkpoint\n"))
    put("manifest", "bad_name", manifest([("../a", 64, 8)], []))
    put("manifest", "bad_hidden", manifest([(".a", 64, 8)], []))
    put("manifest", "bad_twice", manifest(one * 2, []))
    put("manifest", "bad_header", manifest([("a", 64, 65)], []))
    put("manifest", "bad_hole", manifest(one, [("w", [4], [(0, 8, 0, 1), (0, 16, 2, 4)])]))
    put("manifest", "bad_end", manifest(one, [("w", [4], [(0, 8, 0, 3)])]))
    put("manifest", "bad_overlap", manifest(one, [("w", [4], [(0, 8, 0, 4)]), ("v", [4], [(0, 20, 0, 4)])]))
    put("manifest", "bad_outside", manifest(one, [("w", [20], [(0, 8, 0, 20)])]))
    put("manifest", "bad_offset", manifest(one, [("w", [1], [(0, 2**63 - 1, 0, 1)])]))
    put("manifest", "bad_file", manifest(one, [("w", [1], [(1, 8, 0, 1)])]))
    put("manifest", "bad_product", manifest(one, [("w", [2**40, 2**40], [])]))
    put("manifest", "bad_bytes", manifest(one, [("w", [2**62], [])]))
    put("manifest", "bad_tensor_twice", manifest(one, [("w", [1], [(0, 8, 0, 1)]), ("w", [1], [(0, 12, 0, 1)])]))
    put("manifest", "bad_block", manifest(block_nbytes=6))
    put("manifest", "bad_id", manifest(id="0123456789ABCDEF"))
    put("manifest", "bad_mesh", manifest(mesh={"world_size": 0, "dp": 1, "tp": 1, "pp": 1, "sp": 1, "zero_stage": 4}))
    put("manifest", "bad_section", manifest(sections='"engine\\u001b":3'))
    put("manifest", "bad_cut", manifest()[:300])
    put("manifest", "bad_none", "")


TRAIN = {"samples": 24, "tokens": 768, "steps": 10, "eval_loss": None, "sampler": {
    "position": 24, "epoch": 0, "order": "shuffled", "seed": 1234, "seq_len": 32, "token_count": 1000,
    "token_hash": "00ff00ff00ff00ff"}}


def checkpoint(ranges, owner=("0123456789abcdef0123456789abcdef", "0"), more_files=(), sections=TRAIN, extra=b""):
    """A manifest and its first file, of which a range is (tensor, shape, begin, end)."""
    header, tensors, at = {"__metadata__": {"format": "cero", "id": owner[0], "rank": owner[1]}}, [], 0
    for name, shape, begin, end in ranges:
        numel = 1
        for dim in shape:
            numel *= dim
        whole = (begin, end) == (0, numel)
        header[name if whole else f"{name}[{begin}:{end}]"] = entry("F32", shape if whole else [end - begin], at, at + 4 * (end - begin))
        at += 4 * (end - begin)
    content = safetensors_file(header, bytes(i % 251 for i in range(at)) + extra)
    start, at = len(content) - at - len(extra), 0
    for name, shape, begin, end in ranges:
        tensors.append((name, shape, [(0, start + at, begin, end)]))
        at += 4 * (end - begin)
    files = [("rank-00000.safetensors", len(content), start), *more_files]
    parts = {"engine": {"step": 3}, "train": sections, "config": {"optimizer.type": {"value": "AdamW", "origin": "default"}},
             "metrics": {"step": 3, "loss": 2.5, "applied": 3, "skipped": 0}}
    text = ",\n".join(f'"{key}":{json.dumps(value)}' for key, value in parts.items())
    return manifest(files, tensors, text).encode() + b"\0" + content


def checkpoints():
    two = [("w", [2, 3], 0, 6), ("optim.exp_avg.w", [2, 3], 0, 6)]
    put("checkpoint", "two", checkpoint(two))
    put("checkpoint", "blocks", checkpoint([("w", [3, 5], 0, 15)]))
    put("checkpoint", "none", checkpoint([]))
    put("checkpoint", "sequential", checkpoint(two, sections={**TRAIN, "eval_loss": 1.5, "sampler": {
        **TRAIN["sampler"], "order": "sequential", "seed": 18446744073709551615}}))
    put("checkpoint", "other_train", checkpoint(two, sections={"samples": -1}))
    put("checkpoint", "bad_part", checkpoint([("w", [3, 5], 0, 7)]))
    put("checkpoint", "bad_rank", checkpoint(two, owner=("0123456789abcdef0123456789abcdef", "1")))
    put("checkpoint", "bad_id", checkpoint(two, owner=("\x1b[31m", "0")))
    put("checkpoint", "bad_missing", checkpoint(two, more_files=[("rank-00001.safetensors", 64, 8)]))
    put("checkpoint", "bad_longer", checkpoint(two, extra=b"xyz!"))
    put("checkpoint", "bad_cut", checkpoint(two)[:-5])
    put("checkpoint", "bad_name", checkpoint([("w", [2], 0, 2)]).replace(b'"w":{"dtype"', b'"v":{"dtype"'))


def shards():
    put("shards", "two", {"metadata": {"total_size": 3}, "weight_map": {
        "a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors",
        "a.bias": "model-00001-of-00002.safetensors"}})
    put("shards", "one", {"weight_map": {"w": "x.safetensors"}})
    put("shards", "bad_up", {"weight_map": {"w": "../x.safetensors"}})
    put("shards", "bad_slash", {"weight_map": {"w": "/etc/x.safetensors"}})
    put("shards", "bad_backslash", {"weight_map": {"w": "a\\x.safetensors"}})
    put("shards", "bad_nul", {"weight_map": {"w": "x\0.safetensors"}})
    put("shards", "bad_suffix", {"weight_map": {"w": "pytorch_model.bin"}})
    put("shards", "bad_no_name", {"weight_map": {"w": ".safetensors"}})
    put("shards", "bad_type", {"weight_map": {"w": ["x.safetensors"]}})
    put("shards", "bad_empty", {"weight_map": {}})
    put("shards", "bad_key", {"weight_map": {"w": "x.safetensors"}, "weight_maps\x1b": 1})
    put("shards", "bad_list", [])


GPT2 = {"model_type": "gpt2", "vocab_size": 65, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 65, "hidden_size": 16,
         "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-05}


def model_configs():
    put("model_config", "gpt2", GPT2)
    put("model_config", "gpt2_full", {**GPT2, "n_ctx": 32, "n_inner": None, "activation_function": "gelu_new",
        "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-05,
        "initializer_range": 0.02, "bos_token_id": 64, "eos_token_id": 64, "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False, "tie_word_embeddings": True, "torch_dtype": "bfloat16"})
    put("model_config", "llama", LLAMA)
    put("model_config", "llama3", {**LLAMA, "rope_theta": 500000.0, "head_dim": 4, "attention_bias": False,
        "mlp_bias": False, "tie_word_embeddings": False, "hidden_act": "silu", "eos_token_id": [1, 2],
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32}})
    put("model_config", "llama_newer", {**LLAMA, "dtype": "float16",
        "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}})
    put("model_config", "bad_both", {**LLAMA, "rope_theta": 1.0, "rope_parameters": {"rope_theta": 2.0},
                                     "rope_scaling": {"type": "linear", "factor": 2}})
    put("model_config", "bad_type", {"model_type": "bert\n"})
    put("model_config", "bad_key", {**GPT2, "n_heads\x1b[2J": 1})
    put("model_config", "bad_division", {**GPT2, "n_head": 3})
    put("model_config", "bad_zero", {**GPT2, "n_head": 0})
    put("model_config", "bad_big", {**GPT2, "n_embd": 2**62})
    put("model_config", "bad_eos", {**GPT2, "eos_token_id": list(range(9))})
    put("model_config", "bad_list", [GPT2])
    put("model_config", "bad_empty", {})


def train_configs():
    put("train_config", "small", {"train_batch_size": 8})
    put("train_config", "full", {
        "train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": "auto",
        "steps_per_print": 10, "gradient_clipping": 1.0, "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}},
        "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "overlap_comm": True,
                              "stage3_prefetch_bucket_size": "auto"}})
    put("train_config", "fp16", {"train_batch_size": 8, "fp16": {
        "enabled": True, "loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 1000, "hysteresis": 2,
        "min_loss_scale": 1}, "zero_optimization": True})
    put("train_config", "comments", '{"train_batch_size": 4, // all\n# more\n"optimizer": {"type": "Adam", '
        '"params": {"lr": 1e-3,},},}')
    put("train_config", "cero", {"train_batch_size": 8, "cero": {"seed": 7, "no_decay": ["*.bias", "ln_?.*"],
        "frozen": ["wte*"], "gradient_order": "auto"}})
    put("train_config", "monitors", {"train_batch_size": 8, "wall_clock_breakdown": True,
        "csv_monitor": {"enabled": True, "output_path": "out/", "job_name": "a"},
        "tensorboard": {"enabled": True, "output_path": "", "job_name": "b\\"},
        "comms_logger": {"enabled": True, "prof_all": False, "prof_ops": ["all_reduce"]},
        "flops_profiler": {"enabled": True, "module_depth": -1}})
    put("train_config", "warmup", {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "Lamb", "params": {"lr": 1e-3}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": "auto",
                                                        "warmup_num_steps": 5, "total_num_steps": 20}}})
    put("train_config", "ignored", {"train_batch_size": 8, "prescale_gradients": False, "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 1, "round_robin_gradients": True}})
    put("train_config", "bad_batch", {"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2,
                                      "gradient_accumulation_steps": 2})
    put("train_config", "bad_overflow", {"train_micro_batch_size_per_gpu": 2**62, "gradient_accumulation_steps": 2**62})
    put("train_config", "bad_key", {"train_batch_size": 8, "zero_optimisation\x1b": {"stage": 1}})
    put("train_config", "bad_twice", '{"train_batch_size": 8, "bf16": {"enabled": true}, "bfloat16": {"enabled": true}}')
    put("train_config", "bad_offload", {"train_batch_size": 8, "zero_optimization": {
        "stage": 3, "offload_param": {"device": "cpu"}}})
    put("train_config", "bad_type", {"train_batch_size": "8\n"})
    put("train_config", "bad_section", {"train_batch_size": 8, "optimizer": 3})
    put("train_config", "bad_root", [])


def byte_chars():
    """GPT-2's visible character of each byte."""
    keep = [b for b in range(256) if 33 <= b <= 126 or (b >= 161 and b != 173)]
    chars = {b: chr(b) for b in keep}
    rest = [b for b in range(256) if b not in chars]
    chars.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return [chars[b] for b in range(256)]


def tokenizer(vocab, merges, **other):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "vocab": vocab, "merges": merges}
    model.update(other.pop("model", {}))
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"}, "model": model, **other}


def added(number, text, **flags):
    return {"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **flags}


def tokenizers():
    def text_of(value, *more):
        return b"\0".join([json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), *more])

    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    letters = {c: i for i, c in enumerate("abcdehlo Ġ")}
    few = {**letters, "he": 10, "ll": 11, "hell": 12, "hello": 13}
    merges = ["h e", "l l", "he ll", "hell o"]
    every = {c: i for i, c in enumerate(byte_chars())}
    put("tokenizer", "bytes", text_of(
        tokenizer({**every, "Ġt": 256, "he": 257}, ["Ġ t", ["h", "e"]], pre_tokenizer=byte_level, decoder=byte_level,
                  post_processor={**byte_level, "trim_offsets": False}, added_tokens=[added(258, "<|endoftext|>")]),
        b"the cat's \xff\xfe 42\n", b'{"eos_token": "<|endoftext|>"}'))
    put("tokenizer", "few", text_of(tokenizer(few, merges), b"hello hell"))
    put("tokenizer", "unknown", text_of(tokenizer({**few, "?": 14}, merges, model={"unk_token": "?", "fuse_unk": True}),
                                        b"hello xyz", b'{"eos_token": {"content": "hello"}}'))
    llama = {"<0x%02X>" % b: b for b in range(256)}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    put("tokenizer", "fallback", text_of(tokenizer(
        {**llama, "▁": 256, "a": 257, "▁a": 258, "</s>": 259}, ["▁ a"], pre_tokenizer=metaspace,
        model={"byte_fallback": True, "ignore_merges": True},
        decoder={"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        post_processor={"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"</s>": {"id": "</s>", "ids": [259], "tokens": ["</s>"]}}}), b" a ab"))
    put("tokenizer", "metaspace", text_of(tokenizer(
        {"▁": 0, "a": 1, "▁a": 2}, ["▁ a"], pre_tokenizer={**metaspace, "prepend_scheme": "always", "split": True},
        decoder={**metaspace, "prepend_scheme": "always"}), b"a a aa"))
    put("tokenizer", "split", text_of(tokenizer(
        few, merges, pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\s+|[^\\s\\p{L}]+|(?i:he)l(?=o)|\\p{N}{1,3}"},
             "behavior": "MergedWithPrevious", "invert": False},
            {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Contiguous"},
            {"type": "WhitespaceSplit"}]}), b"hello, 123 hello"))
    put("tokenizer", "qwen", text_of(tokenizer(
        {**every, "Ġa": 256}, ["Ġ a"], normalizer={"type": "NFC"},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
             "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": False},
            {**byte_level, "use_regex": False}]}, decoder=byte_level), "e\u0301 a A's 12".encode()))
    put("tokenizer", "normalizers", text_of(tokenizer(
        few, merges, normalizer={"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "h"}, {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "ll"},
            {"type": "Replace", "pattern": {"String": " "}, "content": ""}]},
        added_tokens=[added(14, "<x>", normalized=True, special=False, lstrip=True, rstrip=True, single_word=True)],
        pre_tokenizer={"type": "Whitespace"}), b"exxo <x> hello<x>"))
    put("tokenizer", "roberta", text_of(tokenizer(few, merges, post_processor={
        "type": "Sequence", "processors": [{"type": "RobertaProcessing", "sep": ["o", 7], "cls": ["h", 5],
                                            "trim_offsets": True, "add_prefix_space": True}]}), b"hello"))
    put("tokenizer", "bad_merge", text_of(tokenizer(few, ["h x"])))
    put("tokenizer", "bad_halves", text_of(tokenizer(few, ["h e l", ["h"]])))
    put("tokenizer", "bad_twice", text_of(tokenizer({"a": 0, "b": 0}, [])))
    put("tokenizer", "bad_id", text_of(tokenizer({"a": 16777216}, [])))
    put("tokenizer", "bad_far_id", text_of(tokenizer({"a": 16777215}, []), b"a"))
    put("tokenizer", "bad_pattern", text_of(tokenizer(few, [], pre_tokenizer={
        "type": "Split", "pattern": {"Regex": "(a[b"}, "behavior": "Removed", "invert": True})))
    put("tokenizer", "slow_pattern", text_of(tokenizer({"a": 0}, [], pre_tokenizer={
        "type": "Split", "pattern": {"Regex": "(a+a+)+$"}, "behavior": "Isolated", "invert": False}), b"a" * 16 + b"b"))
    put("tokenizer", "growing", text_of(tokenizer({"a": 0}, [], normalizer={"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 16}] * 5}), b"aa"))
    put("tokenizer", "bad_template", text_of(tokenizer(few, merges, post_processor={
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a"}}] * 5 + [{"Sequence": {"id": "A"}}],
        "special_tokens": {"a": {"ids": [0] * 1000}}})))
    put("tokenizer", "bad_strip", text_of(tokenizer(few, merges, decoder={
        "type": "Strip", "content": "ab", "start": 1, "stop": 0})))
    put("tokenizer", "bad_replacement", text_of(tokenizer(few, merges, pre_tokenizer={**metaspace, "replacement": "  "})))
    put("tokenizer", "bad_added", text_of(tokenizer(few, merges, added_tokens=[added(3, "he")])))
    put("tokenizer", "bad_type", text_of(tokenizer(few, merges, model={"type": "WordPiece\n"})))
    put("tokenizer", "bad_truncation", text_of(tokenizer(few, merges, truncation={"max_length": 5})))
    put("tokenizer", "bad_eos", text_of(tokenizer(few, merges), b"", b'{"eos_token": "\\u001b[0m"}'))


def idx_file(code, lengths, documents=None, modes=b"", width=None):
    width = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 8: 2}.get(code, 2) if width is None else width
    documents = range(len(lengths) + 1) if documents is None else documents
    pointers = [width * sum(lengths[:i]) for i in range(len(lengths))]
    return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(documents)) +
            struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(pointers)}q", *pointers) +
            struct.pack(f"<{len(documents)}q", *documents) + modes)


def idxs():
    put("idx", "u16", idx_file(8, [3, 0, 5]))
    put("idx", "i32", idx_file(4, [2, 1], [0, 2]))
    put("idx", "u8_modes", idx_file(1, [4, 4], modes=b"\0\1"))
    put("idx", "i64", idx_file(5, [1]))
    put("idx", "none", idx_file(8, []))
    put("idx", "long", idx_file(8, [2**31 - 1] * 3))
    put("idx", "bad_float", idx_file(6, [1]))
    put("idx", "bad_pointer", idx_file(8, [1, 1], width=4))
    put("idx", "bad_negative", idx_file(8, [-1]))
    put("idx", "bad_documents", idx_file(8, [1, 1], [0, 2, 1, 2]))
    put("idx", "bad_count", b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2**63 - 1, 2**62))
    put("idx", "bad_version", b"MMIDIDX\0\0" + struct.pack("<QBQQ", 2, 8, 0, 1) + bytes(8))
    put("idx", "bad_short", b"MMIDIDX\0\0")


def npy_file(head, data, version=1):
    head = head.encode()
    start = 10 if version == 1 else 12
    head += b" " * (-(start + len(head) + 1) % 16) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + data


def npys():
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }"
    put("npy", "u2", npy_file(head % ("<u2", 3), struct.pack("<3H", 1, 2, 65535)))
    put("npy", "i4", npy_file(head % ("<i4", 2), struct.pack("<2i", 7, -1), version=2))
    put("npy", "u8", npy_file(head % ("<u8", 1), b"\xff" * 8, version=3))
    put("npy", "i1", npy_file(head % ("|i1", 4), b"\0\1\2\3"))
    put("npy", "none", npy_file(head % ("<i8", 0), b""))
    put("npy", "order", npy_file('{"shape":(1,),"descr":"|u1","fortran_order":True}', b"\5"))
    put("npy", "bad_float", npy_file(head % ("<f4", 1), bytes(4)))
    put("npy", "bad_big_endian", npy_file(head % (">u2", 1), bytes(2)))
    put("npy", "bad_count", npy_file(head % ("<u2", 9223372036854775807), bytes(2)))
    put("npy", "bad_two", npy_file("{'descr': '<u2', 'fortran_order': False, 'shape': (1, 1), }", bytes(2)))
    put("npy", "bad_object", npy_file("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(8)))
    put("npy", "bad_head", b"\x93NUMPY\1\0\xff\xff{'descr'")
    put("npy", "bad_quote", npy_file("{'descr", b""))
    put("npy", "bad_version", b"\x93NUMPY\4\0" + bytes(8))


def main():
    for write in (hostfiles, jsons, safetensors, manifests, checkpoints, shards, model_configs, train_configs, tokenizers, idxs, npys):
        write()
    files = [path for path in ROOT.rglob("*") if path.is_file()]
    print(f"{len(files)} seeds, {sum(path.stat().st_size for path in files)} bytes")


if __name__ == "__main__":
    main()
