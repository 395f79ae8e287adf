// Package runfolder answers: what does a run leave in its folder, and which job may write there? The folder is
// <log_path>/<experiment_name>. One process of a job, rank 0, opens it:
//
//	folder, err := runfolder.Open(path, jobID)          // refused while another job has it
//	defer folder.Close()
//	folder.KeepAlive(runfolder.Heartbeat)
//	w.Go("run folder", func() error { return folder.Lost(ctx) })
//	earlier, err := folder.SetAside()                   // only in a new run: moves the files of an earlier run
//	err = folder.WriteConfig(resolved)
//	err = folder.AddProvenance(p)
//	err = folder.SetStatus(runfolder.Running)
//
// Its files:
//
//	config.yaml        the resolved configuration
//	provenance.json    program, machine and settings; one entry for each start
//	ranks.jsonl        host and process of every rank, to identify a killed process
//	STATUS             one word: running, done, failed, checkpointed, interrupted; ReadStatus checks
//	                   whether a running run is alive
//	metrics.jsonl      the record of the run
//	answers.txt        a language model's answers in evaluations
//	generation.jsonl   rewards of answers, and load of the engines, over time
//	tensorboard/       the same metrics for TensorBoard
//	checkpoints/       global_step_N, and latest
//	trace/             work and waits of each worker: see internal/trace
//	live.json          the state of a running run, renewed each second
//	plan.json          the plan of the placement, if the placement was auto
//	moves.jsonl        moves to other ranks; see internal/moves, also for move-request.json and move-answers.jsonl
//	logs/rank-0000.log errors of a rank; missing if the rank reported none
//	lock               the job that runs here
//	.rlinf-run         marks the folder of a run
//	earlier-1/ …       the output of earlier runs, moved here by SetAside
package runfolder
