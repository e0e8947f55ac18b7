-- What must hold of fence rows whoever writes them: a token never falls, and one token has one owner for ever.
create function fence_watch() returns trigger language plpgsql as $$
begin
    if new.token < old.token or (new.token = old.token and new.owner <> old.owner) then
        raise exception 'the fence of % went from (%, %) to (%, %)', old.resource, old.token, old.owner, new.token, new.owner;
    end if;
    return new;
end $$;
create trigger fence_watch before update on stockade.fence for each row execute function fence_watch();
