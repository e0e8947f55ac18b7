-- The counter of a flash sale is made again from the stored reservations, page by page in the order of their ids.
-- Without this index a page reads the reservations of all other sales, too.
create index flash_reservation_by_sale_and_id on flash_reservation (sale, id);
