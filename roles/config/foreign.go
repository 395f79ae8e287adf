package config

import "fmt"

// ForeignSimulator returns a text such as "the simulator ManiSkill" if envType is an env_type of RLinf that is not
// supported here. It returns "" for any other name. Such a simulator can be connected with env_type external.
func ForeignSimulator(envType string) string {
	return map[string]string{
		"behavior":      "the simulator BEHAVIOR",
		"calvin":        "the simulator CALVIN",
		"d4rl":          "the simulator D4RL (Gym)",
		"dosw1":         "a robot",
		"embodichain":   "the simulator EmbodiChain",
		"frankasim":     "the simulator FrankaSim (Gym)",
		"genesis":       "the simulator Genesis",
		"gsenv":         "the simulator GSEnv",
		"gym":           "the simulator Gym",
		"habitat":       "the simulator Habitat",
		"isaaclab":      "the simulator Isaac Lab",
		"libero":        "the simulator LIBERO",
		"maniskill":     "the simulator ManiSkill",
		"maniskill_rlt": "the simulator ManiSkill",
		"metaworld":     "the simulator MetaWorld",
		"opensora_wm":   "the world model OpenSora",
		"polaris":       "the simulator PolaRiS",
		"realworld":     "a robot",
		"robocasa":      "the simulator RoboCasa",
		"robocasa365":   "the simulator RoboCasa365",
		"robotwin":      "the simulator RoboTwin",
		"roboverse":     "the simulator RoboVerse",
		"wan_wm":        "the world model Wan",
	}[envType]
}

// ForeignPolicy returns a text such as "a VLA policy" if modelType is a model_type of RLinf that is not supported here.
// It returns "" for any other name.
func ForeignPolicy(modelType string) string {
	switch modelType {
	case "abot_m0", "dexbotic_dm0", "dexbotic_pi", "dreamzero", "evo1", "gr00t", "gr00t_n1d6", "gr00t_n1d7",
		"lingbotvla", "molmoact2", "openpi", "openpi_rlinf", "openvla", "openvla_oft", "starvla":
		return "a VLA policy"
	case "rlt_mlp_policy", "rlt_td3_mlp_policy":
		return "a VLA policy, whose features it acts on"
	case "recap_value_model", "steam_value_model":
		return "a value model of images"
	case "cfg_model":
		return "a VLA policy with guidance"
	case "resnet":
		return "a reward model of images"
	case "sd3", "wan22_ti2v_5b", "vidar":
		return "a diffusion model"
	case "flow_policy":
		return "a flow policy"
	case "qwen2.5_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "internvl":
		return "a language model that sees"
	case "deepseek_v3", "deepseek_v2":
		return "a language model with latent attention"
	}
	return ""
}

// ForeignAlgorithm returns a text such as "the algorithm OPD (opd)" if advType or lossType names an algorithm of RLinf
// that is not supported here. It returns "" for any other names.
func ForeignAlgorithm(advType, lossType string) string {
	name, of := "", lossType
	switch {
	case lossType == "opd":
		name = "OPD"
	case lossType == "embodied_nft":
		name = "NFT"
	case lossType == "rlt_ac" || lossType == "rlt_td3":
		name = "RLT"
	case advType == "grpo_dynamic":
		name, of = "GRPO over the turns of an agent", advType
	default:
		return ""
	}
	return fmt.Sprintf("the algorithm %s (%s)", name, of)
}

// useOwnNames replaces RLinf's names of algorithms by ours. RLinf names an algorithm by loss_type alone, or by the kind
// of critic. crossQ is true if the kind of critic is CrossQ. answerCritic is true if there is a critic of answers. In
// this case RLinf's loss_type names only the policy's loss.
func (a *AlgorithmConfig) useOwnNames(crossQ, answerCritic bool) {
	switch a.LossType {
	case "actor":
		if answerCritic && a.AdvType == "gae" {
			a.LossType = "actor_critic"
		}
	case "embodied_sac":
		if crossQ && a.AdvType == a.LossType {
			a.AdvType, a.LossType = "embodied_crossq", "embodied_crossq"
		}
	case "embodied_dagger", "offline_iql":
		a.AdvType = a.LossType
	}
}
