package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// TextPPO trains a language model on answers that got rewards. A token of an answer is to it what a
// step of an environment is to PPO, and an answer is an episode. Its details in the order of
// execution, with the functions that environments use, too:
//
//	Resample: groups without a difference are replaced, as an option (DAPO)       replaceGroups
//	Prepare: a batch gets advantages
//	 1. log-probs by the policy before the update, as an option                   textPass
//	 2. penalty on leaving the reference policy, in the reward, as an option      klEstimate
//	 3. advantages: GAE with a critic; or the answers of a group are compared     GAE, GRPOAdvantages,
//	    (GRPO, Dr. GRPO, RLOO); or what an answer got counts (REINFORCE++)        Reinforce, …
//	 4. normalised over all replicas, with gae and reinpp                         standardise
//	 5. multiplied by importance weights, as an option                            ImportanceWeights
//	Update: epochs over a prepared batch
//	 6. texts of a replica in a new random order, in minibatches                  permute
//	 7. one denominator for a minibatch, agreed before its first text             plan
//	 8. clipped surrogate, or GSPO's                                              Surrogate, gspo
//	 9. penalty on leaving the reference policy, in the loss, as an option        KLLoss
//	10. entropy bonus; the critic's loss                                          EntropyLoss, ValueLoss
//	11. weights of tokens in the loss                                             Aggregate
//	12. gradients summed over replicas, never averaged                            trainState
//	13. no step where all advantages are 0, or the mean ratio is too large        minibatch
//
// The texts of a micro-batch are packed. Neither its size nor its number of texts changes a bit of
// parameters or metrics, but of a mixture of experts.
//
// Metrics, over all replicas:
//
//   - actor/policy_loss: as it is minimised; mean over the minibatches with a gradient
//   - actor/ratio, actor/ratio_abs, actor/clipped_ratio, actor/dual_cliped_ratio, actor/approx_kl,
//     actor/clip_fraction, actor/entropy_loss, actor/kl_loss: means over tokens; with gspo the first
//     six are over texts
//   - actor/max_log_ratio: the largest |log π - log π_rollout| before the first optimiser step, over
//     the tokens of the first minibatch. It is 0 where rollout and trainer compute the same bits
//   - actor/lr, actor/grad_norm; critic/lr, critic/grad_norm
//   - actor/optimizer_steps: steps taken, without those that were left out
//   - critic/value_loss, critic/value_clip_ratio, critic/explained_variance
//   - rollout/advantages_mean, …_max, …_min: of tokens, before normalisation
//   - rollout/gen_batches, with max_num_gen_batches > 1: batches of answers made for the update
//
// Those below are of all answers, those too that Resample has replaced:
//
//   - rollout/rewards: mean of the texts
//   - rollout/accuracy, rollout/unparsable: shares of answers that are right, and that nobody can
//     read, where batches say it
//   - rollout/prompt_length, rollout/response_length: tokens, mean of the texts
//   - rollout/response_tokens: of all answers
//   - rollout/truncated: share of answers that were cut off
//   - rollout/uninformative_groups: share of groups whose rewards are all equal
type TextPPO struct {
	textTraining
	optim OptimConfig

	*textPass
	reference *textPass       // nil: batches bring Ref, or it is not needed
	critic    *criticTraining // nil: none, or a TextCriticPPO trains it
	train     *trainState

	normalize  Normalization
	surrogate  Surrogate
	clipRatios Schedule

	logRatio []float32
	moments  [3]float64
	kept     []TextBatch // groups, for Resample
	batches  int         // made for this update
	answers  [numAnswerSums]float64

	dlogp    []float32
	dentropy []float32
	tried    int     // minibatches of this update with a gradient
	taken    int     // and with an optimiser step
	begun    bool    // the first minibatch is over
	largest  float64 // |log ratio|
	report   textReport
}

// NewTextPPO makes the training of a model that has its weights.
func NewTextPPO(s TextSetup) (*TextPPO, error) {
	p, err := composeTextPPO(&s)
	if err != nil {
		return nil, fmt.Errorf("texts: %w", err)
	}
	return p, nil
}

func composeTextPPO(s *TextSetup) (*TextPPO, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(s.Model.Params.Data) == 0 {
		return nil, fmt.Errorf("the model has nothing to train")
	}
	common := s.common()
	temperature := float32(s.Sampling.Temperature)
	p := &TextPPO{optim: s.Optim, textPass: newTextPass(s.Model, s.MicroBatch, s.Threads, temperature)}
	p.progress = s.Progress
	p.textTraining, p.normalize = s.newTraining(common, numTextSums)
	p.entropy = []float32{}
	if s.Reference != nil {
		p.reference = newTextPass(s.Reference, s.MicroBatch, s.Threads, temperature)
	}
	var err error
	if p.train, err = common.newTrainState(s.Model.Params, s.Optim); err != nil {
		return nil, err
	}
	if s.Critic != nil {
		if p.critic, err = s.newCriticTraining(common); err != nil {
			return nil, err
		}
	}
	if s.Config.LossType == lossPolicyGradient {
		p.surrogate.Kind = PolicyGradient
	}
	p.clipRatios = Schedule{Kind: s.Config.ClipRatioSchedule, Total: p.train.adam.sched.Total}
	p.report = newTextReport(p)
	return p, nil
}

// Close ends the threads.
func (p *TextPPO) Close() {
	p.textPass.Close()
	if p.reference != nil {
		p.reference.Close()
	}
	if p.critic != nil {
		p.critic.Close()
	}
}

// LogProbs appends to dst the log-probabilities of the tokens with Learn by the policy as it is.
func (p *TextPPO) LogProbs(dst []float32, texts []Sequence) ([]float32, error) {
	return p.logProbs(dst, texts)
}

// Save returns views of the optimisers' state, the counters and the critic, which are the same on
// all replicas.
func (p *TextPPO) Save() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", p.counters)
	p.train.save(&d, "actor", false)
	if p.critic != nil {
		p.critic.train.save(&d, "critic", true)
	}
	return d
}

// Load puts back what Save returned.
func (p *TextPPO) Load(d tensor.Dict) error {
	if err := restore(p.Save(), d); err != nil {
		return fmt.Errorf("texts: %w", err)
	}
	return nil
}
