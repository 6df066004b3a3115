import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conform.forms import LONG

from askew.data.mfcc import Mfcc, dct, mel_bands

LIBROSA = Path(__file__).with_name("librosa_mfcc.npy")


def test_fifty_frames_of_ten():
    assert Mfcc()(torch.zeros(3, 16_000)).shape == (3, 50, 10)


def test_silence_is_the_floor_in_the_first_coefficient_and_nothing_else():
    out = Mfcc()(torch.zeros(1, 16_000, dtype=torch.float64))
    # 40 equal logarithms: the orthonormal DCT puts sqrt(40) times their value into the first coefficient
    assert out[0, :, 0].numpy() == pytest.approx(math.sqrt(40) * math.log(1e-6))
    assert out[0, :, 1:].abs().max() < 1e-10


def test_dct_is_orthonormal():
    matrix = dct(40, 40)
    assert torch.allclose(matrix @ matrix.T, torch.eye(40, dtype=torch.float64), atol=1e-12)
    assert dct(2, 2).tolist() == [pytest.approx([math.sqrt(0.5)] * 2), pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)])]


def test_a_tone_peaks_in_its_mel_band():
    of = Mfcc()
    tone = torch.sin(2 * math.pi * 1000 * torch.arange(480) / 16_000)
    power = torch.fft.rfft(tone * torch.hann_window(480), n=512).abs().square().double()
    band = int((mel_bands(of) @ power).argmax())
    mel = np.linspace(2595 * math.log10(1 + 20 / 700), 2595 * math.log10(1 + 4000 / 700), 42)
    centres = 700 * (10 ** (mel[1:-1] / 2595) - 1)
    assert band == int(np.abs(centres - 1000).argmin())


def test_frames_are_independent_and_the_last_ends_in_zeros():
    clip = torch.randn(1, 16_000, generator=torch.Generator().manual_seed(0)) * 0.1
    other = clip.clone()
    other[0, 320 * 49 :] = 0  # only the last 20 ms: frames 48 (from 0.96 to 0.99 s) and 49 (from 0.98 s)
    different = (Mfcc()(clip) != Mfcc()(other)).any(dim=2)[0]
    assert different.nonzero().flatten().tolist() == [48, 49]


def test_batched_equals_one_by_one():
    clips = torch.randn(5, 16_000, generator=torch.Generator().manual_seed(1)) * 0.1
    together = Mfcc()(clips)
    for clip, row in zip(clips, together, strict=True):
        assert torch.allclose(Mfcc()(clip[None])[0], row, atol=1e-4)


def clips_of_noise():
    """Of bits that no version of numpy changes."""
    loudness = np.array([[1e-4], [0.01], [0.1], [0.5]])
    clips = (np.random.Philox(2).random_raw((4, 16_000)) / 2**63 - 1) * loudness
    clips[3] *= np.linspace(0, 1, 16_000) ** 4
    return clips


def by_librosa(clip):
    """Its frames are `fft` samples long with the window in their middle, so the clip is moved by (512 - 480) / 2."""
    librosa = pytest.importorskip("librosa")
    power = librosa.feature.melspectrogram(
        y=np.pad(clip, (16, 176)), sr=16_000, n_fft=512, win_length=480, hop_length=320, window="hann",
        center=False, power=2.0, n_mels=40, fmin=20, fmax=4_000, htk=True, norm=None)
    decibel = librosa.power_to_db(power, amin=1e-6, top_db=None)
    return librosa.feature.mfcc(S=decibel * math.log(10) / 10, n_mfcc=10, dct_type=2, norm="ortho").T


@pytest.mark.parametrize("where", ["stored", pytest.param("computed", marks=pytest.mark.skipif(
    not LONG, reason="librosa compiles for 20 s; make long"))])
def test_librosa_agrees(where):
    """The same parameters in librosa 0.11.0, whose numbers are in the file beside this one. Tolerance: 3e-4 on values
    from -87 to 22, float32 on our side."""
    clips = clips_of_noise()
    theirs = np.load(LIBROSA) if where == "stored" else np.stack([by_librosa(clip) for clip in clips])
    assert theirs.shape == (4, 50, 10)
    assert theirs.min() < -80
    assert theirs.max() > 20
    assert np.abs(Mfcc()(torch.from_numpy(clips).float()).numpy() - theirs).max() < 3e-4


def test_the_name_tells_every_parameter():
    assert str(Mfcc()) == "mfcc10-rate16000-frame480-stride320-fft512-mel40-20to4000Hz-floor1e-06"
    changes = {"rate": 8000, "frame": 400, "stride": 160, "fft": 1024, "bands": 30, "low": 30.0, "high": 3000.0,
               "coefficients": 12, "floor": 1e-8}
    assert len({str(Mfcc(**{key: value})) for key, value in changes.items()} | {str(Mfcc())}) == len(changes) + 1
