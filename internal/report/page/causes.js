// Names operations and causes, and gives causes their colours.
'use strict';

// R.ops are the operations of trace.Op. A text has the span's name, its peer and its argument.
R.ops = [
  (s) => 'no call',
  (s) => s.name,
  (s) => `call ${s.name}`,
  (s, arg) => `waits for an item of ${s.name}${s.peer ? ` from ${s.peer} ${arg}` : ''}`,
  (s, arg) => `waits for room in ${s.name}${s.peer ? ` at ${s.peer}${arg < 0 ? '' : ' ' + arg}` : ''}`,
  (s) => `put into ${s.name}`,
  (s) => `collective operation ${s.name}`,
  (s, arg) => `publishes version ${arg} of ${s.name}`,
  (s, arg) => `waits for version ${arg} of ${s.name}`,
  (s, arg) => `waits for a message of ${s.peer || s.name} ${arg}`,
  (s) => `waits for the call ${s.name}`,
  (s) => 'waits for votes',
  (s) => 'not recorded',
];
R.inSpan = (site, arg) => (R.ops[site.op] || ((s) => s.name))(site, arg);

R.causes = [
  'work',
  'other',
  'save',
  'observation',
  'action',
  'trajectory',
  'reward',
  'gradient',
  'weights',
  'room',
  'message',
  'vote',
  'call',
  'idle',
  'unrecorded',
];
R.causeNames = {
  work: 'work',
  other: 'other work',
  save: 'saving',
  observation: 'waits for observations',
  action: 'waits for actions',
  trajectory: 'waits for trajectories',
  reward: 'waits for rewards',
  gradient: 'sums gradients',
  weights: 'waits for weights',
  room: 'waits for room',
  message: 'waits for messages',
  vote: 'waits for votes',
  call: 'waits for its workers',
  idle: 'idle: not its turn',
  unrecorded: 'not recorded',
};
R.causeName = (c) => R.causeNames[c] || c;
R.causeColour = (c) => (R.causes.includes(c) ? 'cause-' + c : 'cause-unrecorded');
