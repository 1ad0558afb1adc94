"""Where the numbers of the default pool live: plain ints, known to its kernels and its plans.

A state row is ``[frames | learner 0 | learner 1 | ...]``: the frames of the d columns are shared,
each learner (one output of a regression, one class of many) brings its own target and experts.
Everything that never changes is one float64 row of constants, the *config*.
"""

from __future__ import annotations

SQUARED, HUBER, ABSOLUTE, PINBALL, LOGISTIC = range(5)

# What second-order experts look at.
LINEAR, CHANGE, SQUARE = range(3)

# Four experts stand side by side, so that one SIMD instruction serves them all.
LANES = 4

# The candidates between which the last mixture chooses: four hedges, four mixers.
CANDIDATES = 8

# The frames: a count of rounds, then FIELDS arrays of d floats. A learner's target is one more
# column, with the same fields.
FRAMES_HEAD = 1
(
    F_MEAN,  # running mean (winsorised)
    F_VAR,  # running variance
    F_N,  # rows in the running mean, at most the memory
    F_BLOCK_MEAN,  # mean of the block of 32 rows under way
    F_BLOCK_SQUARES,  # sum of squares about it
    F_CENTRE,  # the frame: z = (x - centre) / scale
    F_SCALE,  # 0 until the column has a frame
    F_INVERSE,  # 1 / scale, and 0 until then
    F_LAST,  # the last value
    F_MOVES,  # how often the value changed within the block
    F_BOUND,  # deviations beyond which a value is winsorised
) = range(11)
FIELDS = 11
BLOCK = 32

# A learner's head.
(
    H_ROUND,  # rows learned
    H_LAST,  # the last target, in its frame (logistic: -1 or 1)
    H_LAST2,  # the one before
    H_LOW,  # the least target seen
    H_HIGH,  # the largest
    H_SQUARES,  # running mean of the squared error
    H_LOSS,  # running mean of the loss
    H_COUNT,  # rows in both
    H_NORM,  # L: running mean of |f|^2, f = [1, z]
    H_MIX_NORM,  # the same for the features of the mixers: the experts' predictions
    H_SPREAD,  # sum of the variances of the candidates' losses (not squared, not logistic)
    H_PARAM,  # the loss's parameter in the target's frame
    H_MEMORY,  # log2 of the pool's memory in rows, when last gauged
    H_USUAL,  # its running mean: what is usual
    H_DRIFT,  # H_USUAL - H_MEMORY, as it was before this gauging
    H_GAUGED,  # how often it was gauged
    H_STRIDE,  # every how many gaugings one is kept
    H_KEPT,  # how many are kept
) = range(18)
HEAD = 18
GAUGE_EVERY = 16  # rows
HISTORY = 64  # gaugings kept; when full, every second one goes

# The config's head.
(
    C_DIM,
    C_LOSS,
    C_PARAM,  # Huber's delta in units of the target, pinball's quantile
    C_QUADS,  # blocks of four first-order experts
    C_GROUPS,  # blocks of four second-order experts
    C_EXPERTS,
    C_FRAMES,  # floats in the frames
    C_LEARNER,  # floats in a learner
    C_BASIC,  # last value and running mean: 2, 1 or 0
    C_TWINS,
    C_DIAGONAL,
    C_TOP_SHARE,
    C_DECAY,
    C_MEMORY,
    C_CLIP,
    C_JOIN,  # moves after which a column gets its first frame
    # offsets inside a learner
    O_TARGET,
    O_FIRST,
    O_TWIN,
    O_DIAGONAL,
    O_HEDGE,
    O_MIX,
    O_TOP,
    O_HISTORY,
    # offsets inside the scratch row
    W_VIEW,
    W_G,
    W_YV,
    W_P,
    W_E,
    W_OUT,
    W_TMP,
    W_RAW,
    W_DIAGONAL,
    WORK,
    # offsets of the tables inside the config
    T_STEPS,
    T_HEDGE,
    T_MIX,
    T_DIAGONAL,
    T_GROUP,
    T_SPAN,
) = range(40)
CONFIG_HEAD = 40

# A block of second-order experts in its table.
(G_VIEW, G_SIZE, G_WEIGHTS, G_MATRIX, G_STATS) = range(5)
G_FORGETTING, G_CAP, G_SURPRISE = 5, 9, 13
GROUP = 17

# Beside a block's weights and matrices: trace, surprise's running square and its count, by lane.
S_TRACE, S_SQUARES, S_COUNT = 0, 4, 8
STATS = 12

# Scratch of a block: prediction w.f, variance f'Pf and forgetting factor, by lane.
Y_PREDICTION, Y_VARIANCE, Y_FORGETTING = 0, 4, 8
YV = 12

# What keeps a sick learner finite.
HUGE = 1e100  # values beyond are read as this
TINY = 1e-140  # a scale below is none: its square must be a number
FAR = 1e20  # where a scale changes by more, no digit of what was learned in it is left
SETTLED = 5.0  # values after which an outlier of a column can be told
MOST = 1e300  # of a sum of squares
EDGE = 1e-6  # probabilities stay this far from 0 and 1
LOGIT = 16.0  # logits stay within this
