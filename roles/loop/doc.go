// Package loop answers: what does every runner share? A runner is the program of a task on every rank. Between its
// iterations the Loop reports to rank 0, agrees with all ranks on the next step (agreement), saves and resumes
// (Saver, StartState), and stops on request (Requests). On rank 0 the Logbook writes the metrics, which the task's
// Recorder makes. What the loop needs to know of a task is its Plan.
package loop
