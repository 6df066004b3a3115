"""Numbers chosen by measurement: each with the benchmark behind it, or with the word that there is none.

They decide which engine runs, how many clients it takes at once and in which order sums are taken: with others, the
last bits of a result differ, no more. Limits that follow from how a kernel is written stand in its file.
"""

from __future__ import annotations

# Which engine (`choice`): benchmarks/engine_choice.py, results/bench/engine-choice.json, two cores. With these three
# bounds the rule takes the fastest engine in 174 of 200 rows of a grid, one within 10% of it in 191, and loses 1.5% on
# average, 46% at most.
FEW_CLIENTS = 3  # at once, from which batching them pays
SMALL_WEIGHTS = 50_000  # of a network, up to which memory keeps up with a copy for each client
SMALL_STEP = 1e7  # floating-point operations of a client's forward pass, up to which calling them takes longer

# Threads (`threads`): docs/performance.md, two cores. If every pass is shared, W3's rounds take 16 ms
# instead of 23 on a free machine, but 1,580 instead of 88 beside two busy processes; a pass of 1e9
# operations takes about 10 ms on one thread.
SHARED = 1e9  # floating-point operations of a forward pass from which several threads share it

# How many clients at once (`vectorised`). On a CPU what its caches hold: an MLP of 77,000 weights trains 100 clients in
# 0.21 s by 25, and in 0.37 s all at once; one of 310,000, in 0.89 s by 4 or 8, and in 1.33 s (no benchmark is stored).
# On a GPU a bound of memory, not measured.
CHUNK_BYTES = {"cpu": 48 << 20, "cuda": 4 << 30}  # of one chunk's weights, times what goes with them
CHUNK_JOBS = {"cpu": 256, "cuda": 1024}  # clients of one chunk, however small their networks; not measured

# Compiling (`vectorised`): benchmarks/networks.py and benchmarks/gpu.py, results/bench/h200-networks.json and
# h200-rounds.json. It takes 16 to 45 s on an H200 and saves 0.3 to 1.8 us per example: for most networks it pays from
# 20 to 35 million on.
COMPILED_EXAMPLES = 25e6

# CUDA graphs (`graphed`): not measured.
IDLE = 1.15  # one graph for all clients, some of them idle, if that is at most so many times the work of several graphs
WHOLE = 16  # steps of which one graph may consist

# Evaluation (`evaluate`), examples per forward pass: benchmarks/evaluation_parts.py,
# results/bench/evaluation-parts.json. On a CPU what its caches hold: three networks of images take 0.34 to 0.62 of the
# time that they take with 2,000. On a GPU large enough to keep it busy, small enough for any memory; not measured.
CHUNK = {"cpu": 250, "cuda": 2_000}

# Kernels. The tiles of convolutions depend on their sizes and stand in kernels/conv.py: benchmarks/conv_tiles.py,
# results/bench/h200-conv-tiles.json (all equal layers of ResNet-20 in fp32: 38 ms before, 31 ms with these).
ROW_OF_TAPS = 16  # values in a row of taps, of all channels, that are still read as one pixel's; not measured by itself
NORM_PARTS = 16  # programs that share the pixels of a set; not measured
NORM_PIXELS = 256  # for each of them, at least; not measured
NORM_TILE = 4096  # values of a tile; not measured
LRN_TILES = 4  # per program: the fastest of what was tried on an H200 with 64 channels (no benchmark is stored)
POOL_TILE = 1024  # values of a tile: with eight warps the fastest forward of what was tried on an H200 (likewise)
RECURRENT_BLOCK = 512  # values per program; not measured
