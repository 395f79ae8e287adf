// Package costs answers: what do the operations of a job with environments cost? The operations are a step of
// environments, an inference with recording, and the update of one actor. Each is called as workers call it, on this
// job's own episodes, with sizes that plans would use. Each is measured alone, and on all cores at once.
package costs
