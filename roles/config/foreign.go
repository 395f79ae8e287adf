package config

import (
	"fmt"
	"slices"
	"strings"
)

// ForeignSimulator returns a text such as "the simulator ManiSkill" if envType is an env_type of RLinf that is not
// supported here. It returns "" for any other name. Such a simulator can be connected with env_type external.
func ForeignSimulator(envType string) string { return foreignIn(foreignSimulators, envType) }

// ForeignPolicy returns a text such as "a VLA policy" if modelType is a model_type of RLinf that is not supported here.
// It returns "" for any other name.
func ForeignPolicy(modelType string) string { return foreignIn(foreignPolicies, modelType) }

// foreignIn returns the text for a name in a table, or "" if there is none. A line of the table has a text, a colon,
// and names.
func foreignIn(table, name string) string {
	for line := range strings.Lines(table) {
		text, names, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if slices.Contains(strings.Fields(names), name) {
			return text
		}
	}
	return ""
}

const foreignSimulators = `
	the simulator BEHAVIOR: behavior
	the simulator CALVIN: calvin
	the simulator D4RL (Gym): d4rl
	the simulator EmbodiChain: embodichain
	the simulator FrankaSim (Gym): frankasim
	the simulator Genesis: genesis
	the simulator GSEnv: gsenv
	the simulator Gym: gym
	the simulator Habitat: habitat
	the simulator Isaac Lab: isaaclab
	the simulator LIBERO: libero
	the simulator ManiSkill: maniskill maniskill_rlt
	the simulator MetaWorld: metaworld
	the simulator PolaRiS: polaris
	the simulator RoboCasa: robocasa
	the simulator RoboCasa365: robocasa365
	the simulator RoboTwin: robotwin
	the simulator RoboVerse: roboverse
	the world model OpenSora: opensora_wm
	the world model Wan: wan_wm
	a robot: dosw1 realworld`

const foreignPolicies = `
	a VLA policy: abot_m0 dexbotic_dm0 dexbotic_pi dreamzero evo1 gr00t gr00t_n1d6 gr00t_n1d7 lingbotvla molmoact2
	a VLA policy: openpi openpi_rlinf openvla openvla_oft starvla
	a VLA policy, whose features it acts on: rlt_mlp_policy rlt_td3_mlp_policy
	a VLA policy with guidance: cfg_model
	a value model of images: recap_value_model steam_value_model
	a diffusion model: sd3 wan22_ti2v_5b vidar
	a flow policy: flow_policy
	a language model that sees: qwen2.5_vl qwen2_5_vl qwen3_vl qwen3_vl_moe internvl
	a language model with latent attention: deepseek_v3 deepseek_v2`

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
