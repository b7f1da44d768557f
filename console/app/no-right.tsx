// A page that the person's role may not use, also when a link led here: it says which role decided.
import type { ReactNode } from 'react';
import { Empty } from '../parts/states.tsx';

interface Props {
  /** Continues "Your role viewer may not ...". */
  what: string;
  role: string;
  /** What it may use instead. */
  children?: ReactNode;
}

export function NoRight({ what, role, children }: Props) {
  return (
    <div className="page">
      <h1 className="sr-only">No access</h1>
      <Empty icon="ban" {...(children ? { action: children } : {})}>
        Your role {role} may not {what}. An admin can change that under Roles.
      </Empty>
    </div>
  );
}
