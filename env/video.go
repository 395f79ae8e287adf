package env

// A Video is the section env.eval.video_cfg, which configures the videos of evaluations.
type Video struct {
	// SaveVideo writes a video of each evaluation: global_step_N.png, an animated PNG that browsers
	// play. Below each environment, the video shows its step, its return, and its instruction if it
	// observes one. Default false.
	SaveVideo bool `yaml:"save_video"`
	// VideoBaseDir is the folder of the videos. "", the default, means the folder videos in the
	// run's folder.
	VideoBaseDir string `yaml:"video_base_dir"`
	// Format is png, gif, mp4 or webm. All but png need ffmpeg. Default png. (+)
	Format string `yaml:"format"`
	// FPS is the number of environment steps shown per second. Default 30.
	FPS int `yaml:"fps"`
	// NumEnvs is the number of environments shown side by side. They are the first environments of
	// the first env worker. Default 4. (+)
	NumEnvs int `yaml:"num_envs"`
	// Width and Height are the size of the picture of one environment, in pixels. Default 128. (+)
	Width  int `yaml:"width"`
	Height int `yaml:"height"`
	// Camera, Renderer and Shadows select how the picture is drawn; see View. MuJoCo environments
	// have the renderers caster and osmesa. Default: the environment's own camera and renderer,
	// with shadows. (+)
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

// check validates v, and calls the given function for each rule; see Config.Check. Keys are
// relative to the section video_cfg.
func (v Video) check(want func(ok bool, key string, value any, want string)) {
	const widest = 4096
	want(v.FPS > 0 && v.FPS <= 1000, "fps", v.FPS, "a number from 1 to 1000")
	want(v.NumEnvs > 0 && v.NumEnvs <= 256, "num_envs", v.NumEnvs, "a number from 1 to 256")
	want(v.Width > 0 && v.Width <= widest, "width", v.Width, "a number of pixels from 1 to 4096")
	want(v.Height > 0 && v.Height <= widest, "height", v.Height, "a number of pixels from 1 to 4096")
}
