// A labelled control: label above, hint and error below, tied together for assistive technology. The control itself is
// given as a function of the attributes that it must have, so that any input can be one.
import {
  type InputHTMLAttributes,
  type ReactNode,
  type Ref,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
  useState,
} from 'react';
import { Icon } from './icon.tsx';

export interface FieldProps {
  label: string;
  hint?: ReactNode;
  /** The message of the service or of the form; the control is then marked invalid. */
  error?: string | undefined;
  optional?: boolean;
}

interface ControlAttributes {
  id: string;
  'aria-describedby': string | undefined;
  'aria-invalid': true | undefined;
}

export function Field({
  label,
  hint,
  error,
  optional,
  control,
}: FieldProps & { control: (attributes: ControlAttributes) => ReactNode }) {
  const id = useId();
  const described = [hint === undefined ? '' : `${id}-hint`, error === undefined ? '' : `${id}-error`].join(' ').trim();
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {optional && <span className="dim"> optional</span>}
      </label>
      {control({
        id,
        'aria-describedby': described || undefined,
        'aria-invalid': error === undefined ? undefined : true,
      })}
      {hint !== undefined && (
        <p className="caption" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error !== undefined && (
        <p className="field-error" id={`${id}-error`}>
          <Icon name="circle-alert" size={14} />
          {error}
        </p>
      )}
    </div>
  );
}

type Input = FieldProps & InputHTMLAttributes<HTMLInputElement> & { ref?: Ref<HTMLInputElement> };

export function TextField({ label, hint, error, optional, className, ...rest }: Input) {
  return (
    <Field
      {...{ label, hint, error, optional: optional ?? false }}
      control={(attributes) => (
        <input type="text" autoComplete="off" {...rest} {...attributes} className={`input ${className ?? ''}`} />
      )}
    />
  );
}

export function PasswordField({ label, hint, error, ...rest }: Input) {
  const [isShown, show] = useState(false);
  return (
    <Field
      {...{ label, hint, error }}
      control={(attributes) => (
        <span className="with-button">
          <input {...rest} {...attributes} type={isShown ? 'text' : 'password'} className="input" spellCheck={false} />
          <button
            type="button"
            aria-label={isShown ? 'Hide characters' : 'Show characters'}
            aria-pressed={isShown}
            onClick={() => show(!isShown)}
          >
            <Icon name={isShown ? 'eye-off' : 'eye'} />
          </button>
        </span>
      )}
    />
  );
}

type Area = FieldProps & TextareaHTMLAttributes<HTMLTextAreaElement> & { ref?: Ref<HTMLTextAreaElement> };

export function TextAreaField({ label, hint, error, optional, ...rest }: Area) {
  return (
    <Field
      {...{ label, hint, error, optional: optional ?? false }}
      control={(attributes) => <textarea rows={4} {...rest} {...attributes} className="input" />}
    />
  );
}

type Choice = FieldProps & SelectHTMLAttributes<HTMLSelectElement> & { ref?: Ref<HTMLSelectElement> };

/** Up to seven fixed options; `Combobox` from there. */
export function Select({ label, hint, error, optional, children, ...rest }: Choice) {
  return (
    <Field
      {...{ label, hint, error, optional: optional ?? false }}
      control={(attributes) => (
        <select {...rest} {...attributes} className="input">
          {children}
        </select>
      )}
    />
  );
}

export function Checkbox({
  label,
  ...rest
}: { label: ReactNode } & Omit<InputHTMLAttributes<HTMLInputElement>, 'type'>) {
  return (
    <label className="checkbox">
      <input type="checkbox" {...rest} />
      <span>{label}</span>
    </label>
  );
}
