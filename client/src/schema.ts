// The types that an entity map gives to calls and answers. A map has one member for each entity:
//   interface Schema { companies: { record: Company; create: NewCompany; update: Partial<NewCompany> } }
// `tds types` and the MCP tool `generate_api_client` write it from the entities of a tenant.

export type Operation = 'create' | 'read' | 'update' | 'delete';

/** The types of one entity in an entity map. */
export interface EntityTypes {
  /** A record in responses, with its system fields. */
  record: object;
  /** The values of a new record. */
  create: object;
  /** The values of a change; null clears a field. */
  update: object;
  /** The target entities of relation fields, by field. */
  relations?: object;
  /** The permitted operations; missing: all. */
  operations?: Operation;
}

export type EntityMap<Schema> = { [Name in keyof Schema]: EntityTypes };

/** Members that every record has. Times are ISO 8601 in UTC; `createdBy` and `updatedBy` are ids. */
export interface SystemFields {
  id: string;
  entityId: string;
  createdAt: string;
  updatedAt: string;
  createdBy: string | null;
  updatedBy: string | null;
}

export type SystemKey = keyof SystemFields;

/** The default map: every name is an entity, and every member is unknown. */
export interface AnySchema {
  [name: string]: {
    record: SystemFields & { [field: string]: unknown };
    create: { [field: string]: unknown };
    update: { [field: string]: unknown };
  };
}

export type NameOf<Schema> = keyof Schema & string;
export type Stored<Schema, Name extends keyof Schema> = Member<Schema[Name], 'record'>;
export type FieldOf<Schema, Name extends keyof Schema> = keyof Stored<Schema, Name> & string;
export type OperationsOf<Entity> = Entity extends { operations: infer O extends Operation } ? O : Operation;
export type Member<Entity, Key extends string> = Entity extends { [K in Key]: infer Value } ? Value : never;

/** A record with these fields only, besides the system fields. */
export type Selected<Item, Key> = [keyof Item] extends [Key | SystemKey]
  ? Item
  : Pick<Item, Extract<keyof Item, Key | SystemKey>>;

/** A record whose relations are the related records; a relation that may not be followed stays an id. */
export type Resolved<Schema, Name extends keyof Schema> = {
  [Key in keyof Stored<Schema, Name>]: Key extends keyof Member<Schema[Name], 'relations'>
    ? Related<Stored<Schema, Name>[Key], TargetOf<Schema, Member<Schema[Name], 'relations'>[Key]>>
    : Stored<Schema, Name>[Key];
};
type TargetOf<Schema, Name> = Name extends keyof Schema ? Stored<Schema, Name> : never;
type Related<Value, Target> = Value extends readonly unknown[]
  ? (string | Target)[]
  : Value extends string
    ? string | Target
    : Value;

export type Shown<Schema, Name extends keyof Schema, Key, IsResolved> = Selected<
  IsResolved extends true ? Resolved<Schema, Name> : Stored<Schema, Name>,
  Key
>;
