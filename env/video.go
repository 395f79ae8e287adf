package env

// A Video is the section env.eval.video_cfg: whether and how evaluations are filmed.
type Video struct {
	// SaveVideo writes a film of each evaluation, global_step_N.png, an animated PNG that browsers
	// play. Below each environment the film shows its step, its return, and its instruction if it
	// observes one. Default false.
	SaveVideo bool `yaml:"save_video"`
	// VideoBaseDir is the folder of the films. "", the default, means videos in the run's folder.
	VideoBaseDir string `yaml:"video_base_dir"`
	// Format is png, or gif, mp4 or webm, which need ffmpeg. Default png. (+)
	Format string `yaml:"format"`
	// FPS is the number of steps of an environment in a second of the film. Default 30.
	FPS int `yaml:"fps"`
	// NumEnvs is the number of environments shown side by side: the first ones of the first env
	// worker. Default 4. (+)
	NumEnvs int `yaml:"num_envs"`
	// Width and Height are those of the picture of one environment, in pixels. Default 128. (+)
	Width  int `yaml:"width"`
	Height int `yaml:"height"`
	// Camera, Renderer (of MuJoCo's environments: caster, osmesa) and Shadows choose how the
	// picture is drawn, see View. Default: the environment's choices, and true. (+)
	Camera   string `yaml:"camera"`
	Renderer string `yaml:"renderer"`
	Shadows  bool   `yaml:"shadows"`
}

// DefaultVideo returns the defaults.
func DefaultVideo() Video {
	return Video{Format: "png", FPS: 30, NumEnvs: 4, Width: 128, Height: 128, Shadows: true}
}

// View returns the View of one environment's picture.
func (v Video) View() View {
	return View{Width: v.Width, Height: v.Height, Camera: v.Camera, Renderer: v.Renderer, Shadows: v.Shadows}
}

// check calls the function want for each rule, with the key relative to the section video_cfg.
func (v Video) check(want func(ok bool, key string, value any, want string)) {
	const widest = 4096
	want(v.FPS > 0 && v.FPS <= 1000, "fps", v.FPS, "a number from 1 to 1000")
	want(v.NumEnvs > 0 && v.NumEnvs <= 256, "num_envs", v.NumEnvs, "a number from 1 to 256")
	want(v.Width > 0 && v.Width <= widest, "width", v.Width, "a number of pixels from 1 to 4096")
	want(v.Height > 0 && v.Height <= widest, "height", v.Height, "a number of pixels from 1 to 4096")
}
