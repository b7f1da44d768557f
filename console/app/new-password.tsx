// The field for a new password, with the service's rule; a manager of passwords offers one.
import { PasswordField } from '../parts/field.tsx';

const SHORTEST = 10;
const LONGEST = 200;

/** What is wrong with a new password; undefined when nothing is. */
export function passwordProblem(password: string): string | undefined {
  if (password.length < SHORTEST) return `Use at least ${SHORTEST} characters.`;
  return password.length > LONGEST ? `Use at most ${LONGEST} characters.` : undefined;
}

interface Props {
  label?: string;
  value: string;
  error?: string | undefined;
  onChange: (value: string) => void;
}

export function NewPasswordField({ label = 'Password', value, error, onChange }: Props) {
  return (
    <PasswordField
      label={label}
      name="new-password"
      autoComplete="new-password"
      hint={`At least ${SHORTEST} characters. A few words are easy to remember.`}
      error={error}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}
