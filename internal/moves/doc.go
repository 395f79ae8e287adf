// Package moves answers: what was asked of a running job about its placement, and where has it moved? It reads and
// writes three files in the run's folder:
//
//	move-request.json    the newest requested placement, until the job answers
//	move-answers.jsonl   the job's answers, one per line
//	moves.jsonl          the moves that the job has made, one per line
//
// The process that asks calls Ask, and then Find until there is an answer:
//
//	id, err := moves.Ask(folder, "{actor: 0-3, env: 4-7}")
//	answer, err := moves.Find(folder, id)                       // nil if there is none yet
//
// Rank 0 of the job checks for a request between iterations. It answers a request after it has moved or refused to
// move:
//
//	err := moves.CutBack(folder, resumedAt)                     // when a job begins to use the folder
//	request, err := moves.Pending(folder)                       // nil if there is none
//	err = moves.Append(folder, move)
//	err = moves.Reply(folder, request, moves.Answer{Move: &move})
package moves
