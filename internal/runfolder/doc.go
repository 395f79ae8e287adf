// Package runfolder is the folder in which a run leaves everything: <log_path>/<experiment_name>.
// One process of a job, rank 0, opens it:
//
//	folder, err := runfolder.Open(path, jobID)          // refused while another job has it
//	defer folder.Close()
//	w.Go("run folder", func() error { return folder.KeepAlive(ctx) })
//	earlier, err := folder.SetAside()                   // a new run, not a resumed one: an earlier run moves away
//	err = folder.WriteConfig(resolved)
//	err = folder.AddProvenance(p)
//	err = folder.SetStatus(runfolder.Running)
//
// The names in it:
//
//	config.yaml        the resolved configuration
//	provenance.json    what ran, where and how; one entry for each start
//	ranks.jsonl        rank, process and host of every rank, so that a process that was killed can be named
//	STATUS             one word: running, done, failed, checkpointed, interrupted; ReadStatus tells
//	                   whether a run that says running lives
//	metrics.jsonl      the record of the run
//	answers.txt        answers of a language model in evaluations, where there is one
//	tensorboard/       the same for TensorBoard
//	checkpoints/       global_step_N, and latest
//	logs/rank-0000.log what a rank said went wrong; a rank with nothing to say has none
//	lock               while a job runs here: who
//	earlier-1/ …       what earlier runs left
package runfolder
