// The type of what the fuzzer walks: the API document, its schemas, and the bodies of responses.
// A file of its own, because the others that need it import each other.
// Nothing is known of the values.

// biome-ignore lint/suspicious/noExplicitAny: arbitrary JSON
export type Schema = any;
