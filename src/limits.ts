// Every number of the contract that is not configurable, with its unit in its name or beside it.
// Configurable ones (connection caps, timeouts, retry schedule) are in config.ts.
// Contract: interface#limits, decisions#tenants, decisions#entities, decisions#expressions.

export const LIMITS = {
  list: { pageDefault: 1, limitDefault: 20, limitMax: 100, pageMax: 1_000_000_000, resolveDepthMax: 2, sortKeysMax: 5 },
  /** Related records looked up for one answer, and their occurrences in it. */
  resolve: { recordsMax: 1_000, occurrencesMax: 10_000 },
  bulk: { operationsMax: 1_000 },
  aggregate: { metricsMax: 20, groupByMax: 3, groupsMax: 10_000 },
  transfer: {
    batchRows: 500,
    batchBytesMax: 4_194_304,
    /** In each process: readers set the pace of an export, and each holds a connection. */
    exportsPerTenant: 2,
    exportBatchRows: 1_000,
    errorsReported: 1_000,
    lineBytesMax: 1_048_576,
  },
  entity: { perTenantMax: 500, fieldsMax: 200, optionsMax: 500, labelMax: 200, descriptionMax: 2_000 },
  /** Characters of a value in a `unique` or `indexed` text field: what a B-tree entry surely holds. */
  indexedTextMax: 640,
  /** Levels of nesting in a request body. */
  json: { depthMax: 32 },
  tenant: { nameMax: 200 },
  session: { ttlMs: 12 * 60 * 60 * 1_000 },
  key: { labelMax: 100 },
  platformApi: { rolesMax: 50, roleNameMax: 100, ttlDaysMax: 3_650 },
  publicKey: {
    ttlDays: { default: 90, max: 365 },
    perMinute: { default: 60, max: 1_000_000 },
    perDay: { default: 1_000, max: 1_000_000_000 },
    originsMax: 50,
  },
  adminKey: { auditDefault: 100, auditMax: 500 },
  bot: { ttlS: 60 * 60, entitiesMax: 500 },
  password: { min: 10, max: 200 },
  /**
   * Attempts to prove an identity: failures of an account within the window lock it for as long; attempts, or
   * registrations, of an address.
   */
  attempts: { failuresMax: 5, windowS: 15 * 60, perAddress: 20, perAddressWindowS: 60 },
  login: { ttlS: 24 * 60 * 60 },
  developerToken: { daysDefault: 360, daysMax: 365 },
  passwordReset: { ttlS: 60 * 60, mailsMax: 5, mailsWindowMs: 15 * 60_000 },
  invitation: { daysDefault: 7, daysMax: 90, pageLimitDefault: 50 },
  mail: { queuedMax: 1_000, concurrent: 2, retryAfterMs: [1_000, 5_000, 30_000], closeMs: 3_000 },
  email: { max: 254 },
  view: { conditionsMax: 20 },
  idempotency: { keyMax: 255, keptMs: 24 * 60 * 60 * 1_000 },
  requestId: { max: 128 },
  /** How stale a cached right or definition may be when no invalidation can be heard. */
  cacheStaleMs: 500,
  /** Rows of counters per entity: enough that concurrent writers seldom meet on one. */
  counterSlots: 16,
  /** A change made at this depth starts no further rules; a message deeper than it is not delivered. */
  rules: {
    chainDepthMax: 5,
    perEntityMax: 100,
    nameMax: 200,
    conditionMax: 2_000,
    messageMax: 500,
    priorityMax: 1_000_000,
    triesMax: 5,
  },
  message: { nameMax: 50, subjectMax: 200, bodyMax: 65_536, listMax: 500 },
  events: { keptDays: 30, partitionsAheadDays: 3 },
  /** WebSockets that have not sent their `auth`, in each process: of one client address, and in all. */
  socket: { waitingPerAddress: 2_000, waiting: 10_000 },
  webhook: {
    urlMax: 2_048,
    secretMax: 256,
    descriptionMax: 500,
    listDefault: 50,
    listMax: 500,
    /** Each change makes a delivery for every subscription it matches. */
    subscriptionsMax: 1_000,
    /** What is read of a receiver's answer, and how many preliminary answers it may give. */
    answerBytes: 65_536,
    answerHeaderBytes: 16_384,
    informationalMax: 20,
    /**
     * Attempts on their way at once: for one subscription and one tenant, and in one process. A claim counts those of all
     * processes; deliveries that leave without one are counted by their own.
     */
    perSubscription: 32,
    perTenant: 200,
    perProcess: 1_000,
    /** A connection is kept this long without use; servers are known to keep theirs for 2 s or more. */
    idleMs: 500,
    /** Looking up a receiver's name when a subscription is made. */
    lookupMs: 2_000,
    /** A claim outlasts its attempt by this much, for the outcome to be written. */
    leaseSlackMs: 15_000,
    /** Deliveries are looked for in the database at least this often, whatever has been lost meanwhile. */
    sweepMs: 20_000,
  },
} as const;
