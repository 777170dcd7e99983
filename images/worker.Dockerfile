# The last layer of every family: the worker, and beside it what comes of other packages, of which a file that does not
# compile hurts nobody but who imports it. Unchecked-hash byte code is the same on every build, and is never checked
# against its source at start-up.
ARG BASE
FROM ${BASE} AS worker
LABEL trace-bench.stage="worker"
COPY worker /opt/trace-bench/lib
RUN set -e; \
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/trace-bench/lib/trace_bench; \
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/trace-bench/lib >/dev/null || true

FROM ${BASE}
COPY --from=worker /opt/trace-bench/lib /opt/trace-bench/lib
ARG PRELOAD=""
ENV TRACE_BENCH_PRELOAD=${PRELOAD}
