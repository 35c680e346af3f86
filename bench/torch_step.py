# SPDX-License-Identifier: Apache-2.0
"""One training step of GPT-2 124M in PyTorch, timed: what bench/compare_torch.sh sets beside `cero bench step`.

The model is written as PyTorch users write it: fused qkv, masked attention, tanh GELU, tied head, cross-entropy
over all logits, bf16 autocast, torch.optim.AdamW, clipping by the global norm.
usage: torch_step.py BATCH SEQ_LEN STEPS THREADS   prints the seconds of each step, after two that warm up
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional

VOCAB, WIDTH, HEADS, LAYERS, CONTEXT = 50257, 768, 12, 12, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.out = nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)

    def attend(self, x, mask):
        batch, length, _ = x.shape
        q, k, v = (
            t.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for t in self.qkv(x).split(WIDTH, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(mask, float("-inf"))
        weights = self.drop(functional.softmax(scores, dim=-1))
        y = (weights @ v).transpose(1, 2).reshape(batch, length, WIDTH)
        return self.drop(self.proj(y))

    def forward(self, x, mask):
        x = x + self.attend(self.ln_1(x), mask)
        h = functional.gelu(self.fc(self.ln_2(x)), approximate="tanh")
        return x + self.drop(self.out(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, WIDTH)
        self.wpe = nn.Embedding(CONTEXT, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets, mask):
        positions = torch.arange(tokens.shape[1])
        x = self.drop(self.wte(tokens) + self.wpe(positions))
        for block in self.blocks:
            x = block(x, mask)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return functional.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def main():
    batch, length, steps, threads = (int(a) for a in sys.argv[1:5])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)
    tokens = torch.randint(VOCAB, (batch, length + 1))
    mask = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    for step in range(steps + 2):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(tokens[:, :-1], tokens[:, 1:].contiguous(), mask)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step >= 2:
            print(f"{time.perf_counter() - start:.6f}", flush=True)


main()
