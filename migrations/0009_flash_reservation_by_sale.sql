-- The index that has the ids, too, serves in its place. Not in one transaction with it: this lock would wait for one
-- that waits for the other.
drop index flash_reservation_by_sale;
