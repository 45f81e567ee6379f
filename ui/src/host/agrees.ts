/**
 * Holds the panel's own types against those that the host is made of: what the host gives must be
 * what the panel takes, and the other way round for wishes. Nothing here is run.
 */
import type * as host from "./generated/types";
import type * as panel from "./types";

type Takes<Wanted, Given extends Wanted> = [Wanted, Given];

export type Agreements = [
  Takes<panel.Update, host.Update>,
  Takes<panel.SettingsPage, host.SettingsPage>,
  Takes<panel.Changed, host.Changed>,
  Takes<panel.Found, host.Found>,
  Takes<panel.Proof, host.Proof>,
  Takes<panel.Shell, host.Shell>,
  Takes<panel.Fault, host.Fault>,
  Takes<host.PauseWish, panel.PauseWish>,
  Takes<host.ShellWish, panel.ShellWish>,
  Takes<host.Opens, panel.Opens>,
  Takes<host.Value, panel.Value>,
];
