// Every number of the contract that is not configurable, with its unit in its name or comment. Configurable
// ones (connection limits, timeouts, retry schedule) are in config.ts.
// Contract: interface#limits, decisions#configuration.

export const LIMITS = {
  list: { pageDefault: 1, limitDefault: 20, limitMax: 100, pageMax: 1_000_000_000, resolveDepthMax: 2, sortKeysMax: 5 },
  /** Related records read for one response, and their occurrences in it. */
  resolve: { recordsMax: 1_000, occurrencesMax: 10_000 },
  /**
   * A response of records, in bytes of JSON. `receivedMax` limits the bytes that statements receive for it. A response is written in
   * pieces from `largeFrom` received bytes. A response of `unreadFrom` bytes or more counts until it is read: a tenant with
   * `unreadPerTenant` unread bytes gets no further large response, and beyond `unreadMax` in a process some responses are cut.
   */
  response: {
    bytesMax: 16_777_216,
    receivedMax: 33_554_432,
    largeFrom: 524_288,
    unreadFrom: 262_144,
    unreadPerTenant: 67_108_864,
    unreadMax: 134_217_728,
  },
  /**
   * Calls that hold `bytesFrom` bytes or more: how many a process runs at once, half of them for one tenant; how many of a tenant wait, and
   * for how long. Smaller calls, from `countedFrom` bytes, hold `smallBytes` together; beyond that, small calls count as large.
   */
  largeCalls: {
    bytesFrom: 1_048_576,
    countedFrom: 65_536,
    smallBytes: 134_217_728,
    running: 4,
    waitingMax: 100,
    waitMs: 15_000,
  },
  /** API documents made for a credential: bytes cached and documents made at once, half of each for one tenant; requests of a tenant that wait. */
  apiDocument: { keptBytes: 33_554_432, making: 4, waitingMax: 100, waitMs: 15_000 },
  /** `problemCharacters`: characters of the problems of one record among many; further problems are only counted. */
  bulk: { operationsMax: 1_000, problemCharacters: 4_096 },
  aggregate: { metricsMax: 20, groupByMax: 3, groupsMax: 10_000 },
  /** Tenant documents that a process imports at once, half of them for one operator. A line is a record with the names of its fields. */
  portability: { importsMax: 4, lineBytesMax: 1_179_648 },
  transfer: {
    /** `batchBytesMax` limits records including defaults and values that rules set; `lockedBytesMax` limits records that a bulk call reads. */
    batchRows: 500,
    batchBytesMax: 262_144,
    lockedBytesMax: 4_194_304,
    /** Import batches that a process writes at once, half of them for one tenant; batches of a tenant that wait. */
    batchesWriting: 4,
    batchesWaiting: 1_000,
    headerProblemsMax: 100,
    /** Per process: an export holds a database connection until its client has read everything. */
    exportsPerTenant: 2,
    exportBatchRows: 1_000,
    /** How long the client of an export may read nothing; `stalledWaitedForMs` applies while others wait for its connection. */
    stalledMs: 600_000,
    stalledWaitedForMs: 30_000,
    errorsReported: 1_000,
    /** Characters of a line's message in the report. */
    errorCharacters: 500,
    lineBytesMax: 1_048_576,
  },
  entity: {
    perTenantMax: 500,
    fieldsMax: 200,
    optionsMax: 500,
    labelMax: 200,
    descriptionMax: 2_000,
    defaultBytesMax: 16_384,
    /** As JSON in UTF-8: the fields of an entity; the fields and rules of a tenant; the definitions of all tenants that a process caches. */
    fieldBytesMax: 262_144,
    definitionBytesMax: 8_388_608,
    cachedBytesMax: 67_108_864,
  },
  indexes: { perEntity: 8, fieldsPerIndex: 3, perTenant: 2_000 },
  /** Locks of Postgres: of a call without being counted; of all other calls of a process together, and of its exports. */
  locks: { uncounted: 64, calls: 3_500, exports: 1_000 },
  /** A list counts for the index advice when its statements took `ms` and its entity has this many records. */
  slowList: { ms: 50, records: 1_000 },
  /**
   * Combinations of filters and sort keys of slow lists. They are counted by the hour, with a limit for an entity and for a tenant; the
   * costliest are kept. A process holds `waiting` of them until they are stored. `characters` limits the text of one, without values.
   */
  advice: { keptHours: 24, perEntity: 50, perTenant: 200, waiting: 1_000, characters: 2_000 },
  /** A record's values as JSON in UTF-8 with all digits of its numbers, in bytes; characters in a `url` field. */
  recordBytesMax: 1_048_576,
  urlMax: 8_192,
  /** `stepsMax`: instructions times the characters of the longest value, which is `maxLength` or else `lengthDefault`. */
  pattern: { sourceMax: 1_000, instructionsMax: 1_000, stepsMax: 5_000_000, lengthDefault: 10_000 },
  /** Counts active ones only, without the system roles and the first owner key. */
  perTenant: { roles: 200, views: 500, users: 10_000, platformApis: 100, publicKeys: 100, bots: 500, ownerKeys: 100 },
  /** The stored text of a tenant's roles, of its views, and of its bots, in bytes: a list of each is one response. */
  perTenantBytes: { roles: 8_388_608, views: 8_388_608, bots: 8_388_608 },
  /** The text of one role, view, rule, bot or platform API as JSON in UTF-8, in bytes. */
  definitionBytesMax: 65_536,
  /** Characters in a `unique` or `indexed` text field; always fits a B-tree entry. */
  indexedTextMax: 640,
  /** An entity is small up to this many records and bytes: its index takes about 5 ms, and writes wait. The lock is tried `lockAttempts` times. */
  indexBuild: { smallRecords: 1_000, smallBytes: 1_048_576, lockWaitMs: 100, lockAttempts: 10 },
  /** After `graceMs` a body must arrive at `bytesPerSecond` on average; up to `wholeMax` it is checked once, when all should have arrived. */
  body: {
    graceMs: 30_000,
    bytesPerSecond: 1_024,
    wholeMax: 65_536,
    /** The body of a request that needs no credential and has none. */
    openMax: 16_384,
    /** Bytes of all incomplete bodies of a process: without a verified credential, and with one. More with a large MAX_BODY_BYTES. */
    strangersBytes: 67_108_864,
    tenantsBytes: 268_435_456,
    /** How much of a body the runtime buffers before the service reads it. For a tenant's request, it counts until the response. */
    takenIn: { declared: 1_048_576, undeclared: 131_072 },
    /** For longer bodies: the bytes of one network that may arrive after their responses. Beyond it, the response closes the connection. */
    unread: { perSecond: 4_194_304, burst: 33_554_432, waitMaxMs: 1_000 },
  },
  /** `refusals`: 503 responses that close connections, by network. `openings`: streams and sockets by tenant, socket handshakes by network. */
  connection: {
    silentMs: 10_000,
    refusals: { perSecond: 50, burst: 100, waitMaxMs: 10_000 },
    openings: { perSecond: 100, burst: 1_000, waitMaxMs: 5_000 },
  },
  /** Nesting levels and different names of a request body. */
  json: { depthMax: 32, namesMax: 20_000 },
  problemsMax: 1_000,
  tenant: { nameMax: 200 },
  dns: { answerBytes: 1_232 },
  customDomain: { lookupMs: 2_000, checkEveryMs: 10_000, recheckMs: 300_000, checksPerRound: 20 },
  session: { ttlMs: 12 * 60 * 60 * 1_000 },
  key: { labelMax: 100, cachedBytesMax: 16_777_216, expiredShown: 500 },
  platformApi: { rolesMax: 50, roleNameMax: 100, ttlDaysMax: 3_650, keysMax: 500 },
  publicKey: {
    ttlDays: { default: 90, max: 365 },
    perMinute: { default: 60, max: 1_000_000 },
    perDay: { default: 1_000, max: 1_000_000_000 },
    originsMax: 50,
  },
  mcpSession: { perCaller: 1_000, ttlHours: 24, strangersPerAddress: 200, strangers: 100_000 },
  adminKey: { auditDefault: 100, auditMax: 500 },
  bot: { ttlS: 60 * 60, revokedShown: 500, writesPerHourMax: 1_000_000_000, rowsPerCallMax: 1_000_000 },
  password: { min: 10, max: 200 },
  /** `failuresMax` failed sign-ins within `windowS` lock an account for `windowS`; `perAddress` is per client address. */
  attempts: { failuresMax: 5, windowS: 15 * 60, perAddress: 20, perAddressWindowS: 60 },
  login: { ttlS: 24 * 60 * 60 },
  /**
   * Sessions of a user: beyond `perUser`, the session that has been unused for longest ends. Tokens can be refreshed until `refreshedForS`
   * after the sign-in; a refreshed token ends `supersededS` later. With `refreshesPerMin`, `supersededMax` of a session's tokens work.
   */
  userSession: {
    perUser: 200,
    refreshedForS: 30 * 24 * 60 * 60,
    supersededS: 60,
    refreshesPerMin: 30,
    supersededMax: 60,
    userAgentMax: 300,
  },
  /** Tickets that are neither used nor expired: of one user, bot or key, and of a tenant. Each names `namesMax` entities, or events. */
  ticket: { ttlS: 30, perCaller: 100, perTenant: 1_000, namesMax: 500, nameMax: 100 },
  /** Origins that a tenant lists; characters of an origin; origins for which a process remembers whether they are listed. */
  origins: { perTenant: 50, lengthMax: 300, remembered: 5_000 },
  developerToken: { daysDefault: 360, daysMax: 365 },
  passwordReset: { ttlS: 60 * 60, mailsMax: 5, mailsWindowMs: 15 * 60_000, keptDays: 30 },
  /** `perTenantMax` in any state, `codesMax` platform codes of one creator; ended ones are deleted `keptDays` after their end. */
  invitation: {
    daysDefault: 7,
    daysMax: 90,
    pageLimitDefault: 50,
    perTenantMax: 10_000,
    codesMax: 1_000,
    tenantsMax: 20,
    keptDays: 30,
  },
  mail: { queuedMax: 1_000, perDay: 1_000, concurrent: 2, retryAfterMs: [1_000, 5_000, 30_000], closeMs: 3_000 },
  mailsOfDay: { operators: 10_000, toAddress: 50 },
  email: { max: 254 },
  view: { conditionsMax: 20 },
  /** `bytesMax`: the bytes of a tenant's stored responses, with their keys. */
  idempotency: { keyMax: 255, keptMs: 24 * 60 * 60 * 1_000, bytesMax: 4_294_967_296 },
  requestId: { max: 128 },
  /** Lifetime of cached rights and definitions while invalidations cannot arrive. */
  cacheStaleMs: 500,
  /** Counter rows per entity, so that concurrent writers seldom lock the same one. */
  counterSlots: 16,
  /** Waiting deliveries and rule runs that the metrics count; beyond, they show an estimate. */
  metrics: { countedMax: 100_000 },
  /** `chainDepthMax`: a change at this depth starts no further rules, and a deeper message is not delivered. */
  rules: {
    chainDepthMax: 5,
    /** Runs that the change of one record may start, all depths together. */
    chainChangesMax: 1_000,
    /** A tenant's runs that wait for their turn, for an earlier run of their record or for a retry; the bytes of their records. */
    pendingMax: 200_000,
    pendingBytesMax: 1_073_741_824,
    perEntityMax: 100,
    nameMax: 200,
    conditionMax: 2_000,
    messageMax: 500,
    priorityMax: 1_000_000,
    /** Attempts of one run, and the waits after them. A run whose process is killed during its last attempt ends after the last wait. */
    triesMax: 5,
    retryAfterMs: [1_000, 4_000, 16_000, 60_000],
    /** The values that one rule fills in, together, as JSON in UTF-8. */
    filledBytesMax: 65_536,
  },
  /** A tenant keeps `countMax` messages of `bytesMax` in all; read ones are deleted after `keptDays`, or earlier to make room. */
  message: {
    nameMax: 50,
    subjectMax: 200,
    bodyMax: 65_536,
    listMax: 500,
    countMax: 100_000,
    bytesMax: 268_435_456,
    keptDays: 30,
  },
  events: {
    partitionsAheadDays: 3,
    /** A larger event is not copied to the broker: streams read it from the outbox. */
    inlineBytes: 16_384,
    /** What the broker keeps of a tenant's live stream, and the bytes of all streams. A process that falls further behind closes its streams. */
    streamEntries: 1_000,
    streamBytes: 16_777_216,
    streamsBytes: 268_435_456,
    /** Events of all tenants that wait for the relay; beyond it, the streams of the tenant with the most are closed. */
    backlogMax: 1_000_000,
    /** Bytes of one tenant's events that wait in a process for its streams; beyond it, the slowest readers are disconnected. */
    waitingBytes: 33_554_432,
  },
  /**
   * The feed of changes. A page has at most `limitMax` items and `pageBytes` as JSON. It ends after `scannedMax` events, `scannedBytes` of
   * values or `scanMs`, whether the caller may see them or not. A statement reads `stepEvents`, `stepNumbers` of all tenants and
   * `stepBytes`, for a stream `streamBytes`.
   */
  changes: {
    limitDefault: 100,
    limitMax: 1_000,
    pageBytes: 15_728_640,
    scannedMax: 10_000,
    scannedBytes: 67_108_864,
    scanMs: 1_000,
    stepEvents: 1_000,
    stepNumbers: 50_000,
    stepBytes: 4_194_304,
    streamBytes: 262_144,
    /** How long a request may wait for a change, how many requests of a tenant wait in a process, and how long the process listens afterwards. */
    waitMaxS: 30,
    waitingPerTenant: 1_000,
    lingerMs: 10_000,
    cursorMax: 16_384,
  },
  /** Pages for streams: read at once, half for one tenant; time and bytes of one; unsent bytes below which the next is read; bytes of all. */
  replay: { running: 4, scanMs: 100, bytesMax: 2_097_152, unsent: 65_536, heldBytes: 33_554_432, stalledMs: 10_000 },
  usage: { keptDays: 400, shownDays: 30 },
  /** Closer than this to a quota, a tenant's transactions check it one after the other. More than all concurrent transactions can add. */
  quota: { recordsAhead: 100_000, bytesAhead: 268_435_456 },
  /** Streams of a tenant that are never closed to make room for a stream of another tenant. */
  streams: { keptPerTenant: 10 },
  /** WebSockets that have not sent `auth`, per process: per client address, and in total; each may hold 64 KiB of a frame. */
  unauthenticatedSockets: { perAddress: 1_000, total: 2_000 },
  /** Messages that a process handles: per socket, and per tenant or, before `auth`, per address. Pings and pongs of a socket. Waiting bytes. */
  socketMessages: { perSecond: 1_000, burst: 2_000, tenantPerSecond: 2_000, tenantBurst: 10_000, waitMaxMs: 10_000 },
  socketPings: { perSecond: 10, burst: 20 },
  socketMessageBytes: { strangers: 67_108_864, tenants: 134_217_728 },
  webhook: {
    urlMax: 2_048,
    secretMax: 256,
    descriptionMax: 500,
    /** How long the previous secret may sign beside a new one; deliveries of a replay. */
    keepSecretHoursMax: 72,
    replayMax: 100_000,
    listDefault: 50,
    listMax: 500,
    /** A statement creates at most this many deliveries, in about 40 ms; a larger batch is divided. A larger transaction is refused. */
    subscriptionsMax: 1_000,
    createdPerStatement: 1_000,
    createdPerTransaction: 100_000,
    /** What is read of a receiver's response: bytes and lines (of chunks) of its body; headers, with those of 1xx responses. */
    responseBytes: 65_536,
    responseLinesMax: 250,
    /** How many of these bytes a delivery keeps for each of its latest attempts. */
    responseTextBytes: 1_024,
    attemptsKept: 20,
    responseHeaderBytes: 16_384,
    responseHeadersMax: 100,
    informationalMax: 20,
    /** Attempts in flight; at least `windowMin`, however many fail. A claim counts all processes; inline deliveries count their own process only. */
    windowMin: 4,
    perSubscription: 32,
    perTenant: 200,
    perProcess: 1_000,
    /** Bytes of the bodies in flight; a tenant has at most half. A claim reads at most `bytesPerClaim` and one more body. */
    bytesPerProcess: 67_108_864,
    bytesPerClaim: 16_777_216,
    /** Idle time of a connection to a receiver; servers keep theirs for 2 s or more. */
    idleMs: 500,
    lookupMs: 2_000,
    /** How long a claim's lease outlasts its attempt's timeout, so that the result can be stored. */
    leaseSlackMs: 15_000,
    /** Maximum interval of the search for due deliveries in the database, in case a wake-up is lost. */
    sweepMs: 20_000,
    /** A last retry that could not be made for this long is given up; a subscription whose attempts all fail for this long is disabled. */
    overdueMs: 24 * 60 * 60 * 1_000,
    disabledAfterMs: 5 * 24 * 60 * 60 * 1_000,
  },
} as const;
