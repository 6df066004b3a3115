import os
import shutil

import numpy as np
import pytest
import torch

from askew.data import load, speech_commands
from askew.data.locate import cache_folder
from askew.data.mfcc import Mfcc
from askew.data.speech_commands import WORDS, read_clip


def test_official_split_words_and_speakers(speech_folder):
    data = speech_commands(data_dir=str(speech_folder))
    assert data.classes == ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
    assert data.train.x.shape == (10, 1, 50, 10)
    assert data.train.x.dtype == torch.float32
    assert data.train.y.tolist() == data.test.y.tolist() == list(range(10))
    assert data.client_ids.tolist() == [0] * 10  # aa; cc is in the validation list and left out
    assert data.test_client_ids.tolist() == [1] * 10
    with_validation = speech_commands(validation="train", data_dir=str(speech_folder))
    assert len(with_validation.train) == 20
    assert sorted(set(with_validation.client_ids)) == [0, 2]
    assert len(with_validation.test) == 10


def test_features_are_the_mfccs_of_the_padded_clip(speech_folder):
    data = speech_commands(data_dir=str(speech_folder))
    samples = read_clip(speech_folder / "speech_commands_v0.01" / "no" / "bb_nohash_0.wav")
    assert samples.shape == (16_000,)
    assert not samples[12_000:].any()
    assert samples[:12_000].any()
    expected = Mfcc()(torch.from_numpy(samples[None]).float() / 32_768)
    assert torch.allclose(data.test.x[1], expected, atol=1e-3)


def test_features_come_from_the_cache_the_second_time(speech_folder):
    first = speech_commands(data_dir=str(speech_folder))
    (cache,) = (speech_folder / "features").iterdir()
    assert str(Mfcc()) in cache.name
    np.savez(cache.open("wb"), features=np.full((30, 50, 10), 7, np.float32))
    assert float(speech_commands(data_dir=str(speech_folder)).train.x.unique()) == 7
    cache.write_bytes(b"damaged")
    again = speech_commands(data_dir=str(speech_folder))
    assert torch.equal(first.train.x, again.train.x)
    assert [file.name for file in (speech_folder / "features").iterdir()] == [cache.name]  # no half file beside it


def test_a_changed_clip_is_not_taken_from_the_cache(speech_folder, write_wav):
    before = speech_commands(data_dir=str(speech_folder))
    write_wav(speech_folder / "speech_commands_v0.01" / "yes" / "aa_nohash_0.wav", np.zeros(8_000))
    after = speech_commands(data_dir=str(speech_folder))
    assert not torch.equal(before.train.x[0], after.train.x[0])
    assert torch.equal(before.train.x[1:], after.train.x[1:])


@pytest.mark.skipif(os.name == "nt" or (hasattr(os, "geteuid") and os.geteuid() == 0), reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_no_error(speech_folder):
    speech_folder.chmod(0o500)
    try:
        assert len(speech_commands(data_dir=str(speech_folder)).train) == 10
    finally:
        speech_folder.chmod(0o700)


def test_features_go_to_the_cache_folder_when_the_data_folder_refuses(speech_folder):
    (speech_folder / "features").write_text("a file where the folder should be")
    first = speech_commands(data_dir=str(speech_folder))
    (cache,) = (cache_folder() / "features").iterdir()
    assert cache.stat().st_size > 30 * 50 * 10 * 4
    assert torch.equal(first.train.x, speech_commands(data_dir=str(speech_folder)).train.x)


def test_longer_clips_are_cut(tmp_path, write_wav):
    write_wav(tmp_path / "long.wav", np.arange(20_000))
    assert read_clip(tmp_path / "long.wav").tolist() == list(range(16_000))


def test_bad_clips_are_named(speech_folder, refused, write_wav):
    clip = speech_folder / "speech_commands_v0.01" / "up" / "bb_nohash_0.wav"
    whole = clip.read_bytes()
    write_wav(clip, np.zeros(8_000), rate=8_000)
    with refused("bb_nohash_0.wav: 1 channels of 16 bits at 8000 Hz; one channel of 16 bits at 16000 Hz is needed"):
        speech_commands(data_dir=str(speech_folder))
    clip.write_bytes(whole[: len(whole) // 2])
    with refused("bb_nohash_0.wav: 5989 samples, its header says 12000"):
        speech_commands(data_dir=str(speech_folder))
    clip.write_bytes(b"RIFF")
    with refused("is not a whole wav file"):
        speech_commands(data_dir=str(speech_folder))
    clip.write_bytes(b"not a wav file at all")
    with refused("is not a whole wav file"):
        speech_commands(data_dir=str(speech_folder))


def test_missing_parts_are_named(speech_folder, refused):
    folder = speech_folder / "speech_commands_v0.01"
    with refused("no folder speech_commands_v0.02 .*askew data get speech_commands_v0.02"):
        speech_commands(version="0.02", data_dir=str(speech_folder))
    with refused("version must be '0.01' or '0.02', not '1'"):
        speech_commands(version="1", data_dir=str(speech_folder))
    (folder / "testing_list.txt").rename(folder / "aside")
    with refused("no file testing_list.txt in .*askew data get speech_commands_v0.01"):
        speech_commands(data_dir=str(speech_folder))
    (folder / "testing_list.txt").write_text("bed/zz_nohash_0.wav\n")
    with refused("no test clips of the ten words"):
        speech_commands(data_dir=str(speech_folder))
    shutil.rmtree(folder / "stop")
    with refused("no file stop/ in"):
        speech_commands(data_dir=str(speech_folder))


@pytest.mark.slow
def test_real_speech_commands(real_data):
    data = load("speech_commands", real_data("speech_commands_v0.01"))
    assert (len(data.train), len(data.test)) == (18_538, 2_567)
    assert len(np.unique(np.concatenate([data.client_ids, data.test_client_ids]))) == 1_653
    assert not set(data.client_ids) & set(data.test_client_ids)  # the official split is by speaker
    assert len(WORDS) == data.num_classes
