# The service alone, for compose.yaml or another host with PostgreSQL and Redis. It has the production
# dependencies of the lock file.
FROM node:22-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund

# The console is built from packages that the service itself does not need.
FROM node:22-bookworm-slim AS console
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY src src
COPY client client
COPY scripts/console scripts/console
COPY console console
RUN ./scripts/console && test -f dist/console/index.html

FROM debian:bookworm-slim
WORKDIR /app
RUN useradd --system --home-dir /app --shell /usr/sbin/nologin service && install -d -o service /data
COPY --from=dependencies /app/node_modules node_modules
RUN ln -s /app/node_modules/.bin/bun /usr/local/bin/bun
COPY package.json bunfig.toml ./
COPY sql sql
COPY src src
COPY client client
COPY scripts/tds scripts/tds
RUN ln -s /app/scripts/tds /usr/local/bin/tds
COPY --from=console /app/dist dist
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATA_DIR=/data
# How the runtime collects garbage, as `scripts/start` explains.
ENV BUN_JSC_forceRAMSize=536870912 BUN_JSC_concurrentGCMaxHeadroom=2.5
USER service
EXPOSE 3000
VOLUME /data
CMD ["bun", "--no-env-file", "src/main.ts"]
