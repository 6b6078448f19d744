"""Name patterns of ops that do not compute the model. For the source marks see the names module."""

from __future__ import annotations

import re

# Ops that log or save what the model computed: callbacks and summaries, on any thread.
# Names of TensorFlow's ops. [C]
SIDE_EFFECT_OPS = (
    r"Write\w{0,20}Summary|(?:Flush|Close)SummaryWriter|Create\w{0,20}SummaryWriter|SummaryWriter|ImportEvent|"
    r"(?:Scalar|Tensor|Histogram|Image|Audio|Merge)Summary(?:V2)?|WriteFile|PrintV?2?|Save(?:V2|Slices)?|"
    r"MergeV2Checkpoints|ShardedFilename|Restore(?:V2|Slice)?|LogMessage|DeleteSummaryWriter"
)
# Ops that make input from files and bytes. [C]
INPUT_OPS = (
    r"Decode(?:And\w{1,10})?(?:Jpeg|Png|Gif|Bmp|WebP|Image|Raw|PaddedRaw|CSV|Wav|Video|Compressed|JSONExample|ProtoV2)|"
    r"ExtractJpegShape|ReadFile|Reader(?:Read|ReadUpTo)(?:V2)?|MatchingFiles|ParseTensor|"
    r"Parse(?:Single|Sequence|SingleSequence)?Example(?:V2)?|DecodeWav"
)
# Ops in which the host waits for other training processes and exchanges data with them: TensorFlow's collectives,
# receives from other workers, XLA's collectives on CPUs. One process cannot separate the wait from the exchange.
# [C], two workers of TensorFlow 2.21 and of JAX 0.11
PEER_OPS = (
    r"Collective(?:Reduce|Gather|Bcast|Permute|AllToAll|ReduceScatter|Assign)\w{0,20}|_?(?:Host)?Recv|RecvTensor|"
    r"\w{0,30}Rendezvous|RpcRecvTensor|Horovod\w{1,40}|NcclAllReduce|Barrier"
)
RECEIVE_OP = re.compile(r"(?:^|:)_?(?:Host)?Recv$")  # with an accelerator: receives from this process's own device
HLO_PEER_OPS = re.compile(
    r"%?(?:all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast)"
    r"(?:-start|-done)?(?:\.\d+)*|(?:\w{1,40} )?[Rr]endezvous(?:[ :].{0,200})?"
)
