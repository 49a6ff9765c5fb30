import threading

from hansard.record.threads import begun


def test_all_threads_of_a_pool_are_there_before_anything_is_asked_of_them() -> None:
    with begun(3, "early") as pool:
        there = [each for each in threading.enumerate() if each.name.startswith("early")]
        assert len(there) == 3
        assert pool.submit(threading.current_thread).result() in there
    assert not [each for each in there if each.is_alive()]
