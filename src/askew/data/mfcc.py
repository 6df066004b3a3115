"""Mel-frequency cepstral coefficients (Davis and Mermelstein 1980), for all clips of a batch at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mfcc:
    """How clips become coefficients.

    Frame t covers the samples from t * stride on: Hann window (periodic), zeros up to `fft` samples, |FFT|^2,
    triangular mel bands of height 1 (O'Shaughnessy's scale, 2595 log10(1 + f / 700), as in HTK), natural logarithm,
    DCT-II (orthonormal), first `coefficients`. There are ceil(samples / stride) frames; zeros after the clip fill the
    last.

    Each choice that the papers leave open is the default of the tool that Hello Edge builds on (TensorFlow's speech
    commands example: 40 bands from 20 to 4,000 Hz), with two departures: power instead of magnitude, and a floor that
    sits just above the quantisation noise of 16-bit samples, so that silence and padding look alike.

    Args:
        rate: samples per second.
        frame: samples in a frame (480: 30 ms).
        stride: samples between the starts of two frames (320: 20 ms).
        fft: length of the Fourier transform, at least `frame`.
        bands: number of mel bands.
        low, high: limits of the bands in Hz.
        coefficients: how many to keep, the first (loudness) included.
        floor: smallest power of a band, for samples in [-1, 1].

    Example:
        >>> Mfcc()(torch.zeros(3, 16_000)).shape
        torch.Size([3, 50, 10])

    References:
        Y. Zhang, N. Suda, L. Lai, V. Chandra, "Hello Edge: keyword spotting on microcontrollers", 2017, section 3.
    """

    rate: int = 16_000
    frame: int = 480
    stride: int = 320
    fft: int = 512
    bands: int = 40
    low: float = 20.0
    high: float = 4_000.0
    coefficients: int = 10
    floor: float = 1e-6

    def __call__(self, clips: Tensor) -> Tensor:
        """Clips [N, samples] of floats in [-1, 1] -> coefficients [N, frames, coefficients]."""
        frames = -(-clips.shape[1] // self.stride)
        lacking = (frames - 1) * self.stride + self.frame - clips.shape[1]
        pieces = torch.nn.functional.pad(clips, (0, lacking)).unfold(1, self.frame, self.stride)
        window = torch.hann_window(self.frame, dtype=clips.dtype, device=clips.device)
        power = torch.fft.rfft(pieces * window, n=self.fft).abs().square()
        mel = power @ mel_bands(self).T.to(clips)
        return mel.clamp_min(self.floor).log() @ dct(self.bands, self.coefficients).T.to(clips)

    def __str__(self) -> str:
        """All parameters in a form fit for a file name."""
        return (f"mfcc{self.coefficients}-rate{self.rate}-frame{self.frame}-stride{self.stride}-fft{self.fft}"
                f"-mel{self.bands}-{self.low:g}to{self.high:g}Hz-floor{self.floor:g}")


def mel_bands(of: Mfcc) -> Tensor:
    """Weights of each Fourier bin in each band, [bands, fft / 2 + 1], float64."""
    edges = torch.linspace(_to_mel(of.low), _to_mel(of.high), of.bands + 2, dtype=torch.float64)
    edges = 700.0 * (10.0 ** (edges / 2595.0) - 1.0)  # Hz
    bins = torch.linspace(0.0, of.rate / 2, of.fft // 2 + 1, dtype=torch.float64)
    left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp_min(0.0)


def dct(size: int, rows: int) -> Tensor:
    """The first `rows` rows of the orthonormal DCT-II of that size, float64."""
    k, n = torch.arange(rows, dtype=torch.float64)[:, None], torch.arange(size, dtype=torch.float64)
    matrix = torch.cos(math.pi * k * (n + 0.5) / size) * math.sqrt(2.0 / size)
    matrix[0] /= math.sqrt(2.0)
    return matrix


def _to_mel(hertz: float) -> float:
    return 2595.0 * math.log10(1.0 + hertz / 700.0)
