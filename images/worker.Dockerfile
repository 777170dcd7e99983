# The last layer of every family: the worker. Unchecked-hash byte code is the same on every build, and is never checked
# against its source at start-up.
ARG BASE
FROM ${BASE} AS worker
LABEL trace-bench.stage="worker"
COPY worker /opt/trace-bench/lib
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/trace-bench/lib

FROM ${BASE}
COPY --from=worker /opt/trace-bench/lib /opt/trace-bench/lib
ARG PRELOAD=""
ENV TRACE_BENCH_PRELOAD=${PRELOAD}
