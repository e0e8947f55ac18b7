FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# Without the feature `demo`, and so without the testbed. Without symbols the program is a quarter smaller.
ENV CARGO_PROFILE_RELEASE_STRIP=symbols
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    cargo build --locked --release -p stockade-inventory --features otlp --bin inventory \
    && cp target/release/inventory /inventory

FROM debian:bookworm-slim
# The authorities by which a Redis over TLS (`rediss://`) is checked.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /inventory /usr/local/bin/inventory
USER 10001:10001
ENV LISTEN_ADDR=0.0.0.0:8080 OPS_ADDR=0.0.0.0:9464 LOG_FORMAT=json
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["inventory"]
CMD ["serve"]
