// The members of a user in request bodies: address, name, role, password, isActive. 400 names every problem.
// Unknown members are problems for admins; for a person who registers they are ignored, whatever role they name.
// Contract: interface#user, decisions#users.
import { type Static, Type } from '@sinclair/typebox';
import { closed, closedChange, Ignored, open, optional } from '../http/schemas.ts';
import { Email, Password, PersonName } from './person.ts';

const Role = Type.String({ minLength: 1, error: 'must be the name of a role', examples: ['member'] });
const Members = { email: Email, name: PersonName, role: Role };
const Left = { description: 'left out: an invitation is mailed' };

/** A new user; without a password, an invited one. */
export const NewUser = closed({
  ...Members,
  password: optional(Type.String({ ...Password, ...Left })),
  id: Ignored,
  tenantId: Ignored,
  isActive: Ignored,
});
export type NewUser = Static<typeof NewUser>;

/** Members left out or null stay as they are. */
export const UserChange = closedChange({ ...Members, password: Password, isActive: Type.Boolean() });
export type UserChange = Static<typeof UserChange>;

/** A person who registers. */
export const Registration = open({ email: Email, name: PersonName, password: Password });
export type Registration = Static<typeof Registration>;
