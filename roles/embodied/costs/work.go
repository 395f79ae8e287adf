package costs

import (
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/planner"
)

// WorkOf returns the work of an iteration of the job of p. Profile adds the values that only a measured update gives.
func WorkOf(p *plan.Plan) planner.Workload {
	samples, _ := p.Config.Samples()
	params := 4 * int64(p.NumParams())
	w := planner.Workload{Actors: p.Actors, Samples: samples, ModelBytes: params, WeightsEvery: int(p.SyncInterval),
		GradientBytes: params, BucketBytes: p.Config.Comm.BucketBytes, Async: p.Async(),
		Staleness: p.Config.Algorithm.StalenessThreshold}
	if p.Offline {
		w.Samples = p.Config.Actor.GlobalBatchSize
		w.Bytes = planner.Sizes{Actor: p.ActorBytes()}
		return w
	}
	w.Envs, w.Group = p.Train.Envs, config.LCM(max(1, p.Config.Env.Train.GroupSize), p.EnvsPerSimulator())
	w.Steps, w.Epochs = p.Steps, p.Epochs
	if p.OffPolicy {
		w.Warmup = p.Config.Algorithm.OffPolicy.ReplayBuffer.MinBufferSize
	}
	const rows = 64 // layouts are padded, so the size of one row alone would be too large
	some := plan.Route{Hi: rows, Shards: []plan.ActorShard{{}}}
	w.Bytes = planner.Sizes{
		Observation: int64(p.StepLayout(some).Size()) / rows,
		Action:      int64(p.ActionLayout(some).Size()) / rows,
		Trajectory:  int64(p.TrajectoryLayout(rows).Size()) / rows,
		Queued:      p.QueuedRollouts(), Actor: p.ActorBytes(), Rollout: params,
	}
	for _, r := range p.Placement.Ranks("actor") {
		w.Bytes.Replay = p.MemoryOf(r).Replay / int64(len(p.MembersOn("actor", r)))
		break
	}
	if w.Async {
		w.Bytes.Copy = params
	}
	if p.Rewards > 0 {
		w.Bytes.Transition = int64(p.TransitionLayout(some).Size()) / rows
	}
	if p.Inferences > 0 {
		w.Bytes.Inference = params
	}
	return w
}
