# Tests `clairon forget` and POST /v1/users/<id>/forget: sessions and pairs of the user end, the store does not have the name
# afterwards, except in entries that others share; with one shard and with 16, and if a relay dies meanwhile.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::RawSocket;
use JSON ();
use MIME::Base64 qw(encode_base64url);
use Test::More;

my $NAME  = 'vera-7Q'; # in no other word of the store
my $POINT = 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4';
my $AUTH  = 'BTBZMqHH6r4Tts7J_aSIgg';
my $KEY   = scratch() . '/vapid';
system("umask 077; '" . Clairon::Test::program() . "' vapid >'$KEY'") == 0 or die "could not create a key\n";

# Returns the keys of a store that contain the name, in the key or in the value.
sub keys_with_name
{
    my ($store) = @_;
    my ($cursor, %found) = ('0');
    do {
        ($cursor, my $keys) = @{ $store->execute('SCAN', $cursor, 'COUNT', 1000) };
        for my $key (@$keys)
        {
            my $type = $store->execute('TYPE', $key);
            my %read = (string => ['GET', $key], hash => ['HGETALL', $key], list => ['LRANGE', $key, 0, -1], set => ['SMEMBERS', $key],
                zset => ['ZRANGE', $key, 0, -1], stream => ['XRANGE', $key, '-', '+']);
            my $value = $read{$type} ? $store->execute(@{ $read{$type} }) : '';
            $found{$key} = 1 if index($key . JSON->new->allow_nonref->encode($value // ''), $NAME) >= 0;
        }
    } until $cursor eq '0';
    return sort keys %found;
}

for my $shards (1, 16)
{
    my $pg    = Clairon::Test::postgresql("main$shards");
    my $store = Clairon::Test::store();
    my %conf  = ('store.shards' => $shards, 'receipts.sql' => 'true', 'webpush.vapid_key_file' => $KEY, 'webpush.subject' => 'mailto:ops@example.org',
        'webpush.app_url' => 'https://app.example/', 'webpush.delay' => '1h', 'webpush.origins' => 'https://push.example.net');
    my $relay = Clairon::Test::relay($pg, $store, conf => \%conf);
    my $other = Clairon::Test::relay($pg, $store, conf => { %conf, 'relay.roles' => 'gate' });
    my $sql   = sub { return $pg->safe_psql('postgres', $_[0]) };
    my $http  = sub {
        my ($of, $user, $method, $path, $body, %more) = @_;
        return Clairon::Test::RawSocket->new($of)->request($method, $path, ':body' => $body, %more,
            Authorization => 'Bearer ' . token(sub => $user, publish => JSON::true, admin => JSON::true));
    };
    my $prefix = $shards == 1 ? 'clairon:' : 'clairon:{0}:';
    my $notify = sub { my ($targets, $more) = @_;
        return $sql->("SELECT clairon.notify('USER', '{$targets}', '{\"mark\":1}'" . ($more ? ", $more" : '') . ')') };
    my $options = q{ack_required => true, ack_timeout => '1 hour', receipts => 'user'};

    # All that the store may have of a user.
    my $first = $notify->($NAME);    # the oldest stream entry
    wait_until('it is stored', sub { grep { $store->execute('EXISTS', $_) && $store->execute('XLEN', $_) } $shards == 1 ? 'clairon:stream' : map { "clairon:{$_}:stream" } 0 .. 15 });
    my ($vera, $bob) = ($relay->client($NAME), $other->client('bob'));
    my $sse = $other->client($NAME);
    my $shared = $notify->("$NAME,bob", $options);
    my $alone  = $notify->($NAME, $options . q{, web_push => '{"title":"=x"}'});
    my $acked  = $notify->("$NAME,bob", $options);
    for my $client ($vera, $bob)
    {
        $client->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{id} eq $acked });
    }
    $vera->ack($acked);
    $bob->ack($acked);
    my $absent = $notify->("$NAME,carl", $options);
    is($http->($relay, $NAME, POST => '/v1/webpush/subscriptions', { endpoint => 'https://push.example.net/a', keys => { p256dh => $POINT, auth => $AUTH } })->{status},
        201, "$shards shards: the user subscribes to Web Pushes");
    is($http->($relay, $NAME, POST => '/v1/ticket')->{status}, 200, 'has a ticket');
    is($http->($relay, $NAME, POST => '/v1/notifications', { routing => { audience => { type => 'USER', targets => [$NAME] } }, payload => {} }, 'Idempotency-Key' => 'k1')->{status},
        201, 'and an idempotency key');
    # A group with a shared pending list, a retry, a large stream entry, and the ticket of a Web Push.
    $sql->("INSERT INTO clairon.member VALUES ('CREW', 'c', '$NAME')");
    wait_until('the store has the membership', sub { $store->execute('EXISTS', "${prefix}groups:$NAME") });
    $sql->("INSERT INTO clairon.member SELECT 'CREW', 'c', 'm' || i FROM generate_series(1, 4100) i");
    my $crew = $sql->("SELECT clairon.notify('CREW', '{c}', '{}', $options)");
    my $large = $sql->("SELECT clairon.notify('USER', '{$NAME}', jsonb_build_object('x', repeat('y', 100000)))");
    $vera->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{id} eq $large });
    $store->execute('ZADD', "${prefix}due", 1, "$shared:$_") for $NAME, 'bob';
    wait_until('a retry is added', sub { $store->execute('LLEN', "${prefix}copies:$shared") > 1 });
    $store->execute('SET', "${prefix}push_ticket:0123", "$alone $NAME");
    my $failed = $notify->("$NAME,bob", q{ack_required => true, ttl => '1 s'});
    wait_until('a notification has expired', sub {
        my $count = 0;
        $count += $store->execute('XLEN', $shards == 1 ? 'clairon:errors' : "clairon:{$_}:errors") for 0 .. $shards - 1;
        $count > 0 });
    wait_until('the receipts of the acknowledgement are rows', sub { $sql->("SELECT count(*) FROM clairon.receipt WHERE notification = '$acked'") == 3 });
    my @before = keys_with_name($store);
    cmp_ok(scalar(@before), '>', 15, 'the store has the name in many keys') or diag("@before");
    note("@before");

    # The relay dies in the middle, and the request is repeated.
    my $dying = Clairon::Test::relay(undef, $store, conf => { %conf, 'receipts.sql' => 'false', 'relay.roles' => 'gate' });
    my $request = Clairon::Test::RawSocket->new($dying);
    $request->begin(POST => "/v1/users/$NAME/forget", Authorization => 'Bearer ' . token(sub => 'op', admin => JSON::true));
    $dying->wait_for_log(qr/component=audit .*act="forget" object="\Q$NAME\E"/);
    $dying->kill9;
    is(Clairon::Test::RawSocket->new($relay)->request(POST => "/v1/users/$NAME/forget", Authorization => 'Bearer ' . token(sub => 'op'))->{status}, 403,
        'the route needs the claim admin');
    my $done = $http->($other, 'op', POST => "/v1/users/$NAME/forget");
    is($done->{status}, 200, 'a repeated request removes the user') or diag(explain($done));
    is($vera->wait_closed, 4003, 'the session ends with 4003');
    is($sse->wait_closed, 4003, 'also on the other relay');
    my ($remaining) = grep { $_->{where} eq 'notifications' } @{ $done->{json}{remaining} };
    cmp_ok($remaining->{entries}, '>=', 3, 'the result counts the shared notifications');
    is($done->{json}{memberships}, 1, 'and the memberships of the application');

    # What others share.
    wait_until('the sink has the receipts of the user', sub { $sql->("SELECT count(*) FROM clairon.receipt WHERE user_id = '$NAME' AND outcome = 'forgotten'") == 4 });
    is($sql->("SELECT string_agg(outcome, ' ' ORDER BY user_id) FROM clairon.receipt WHERE notification = '$alone'"), 'forgotten forgotten', 'the notification of the user alone ended too');
    is($store->execute('HGET', "${prefix}ack:$shared", $NAME), undef, 'the user has no pending acknowledgement');
    is($store->execute('HGET', "${prefix}ack:$shared", 'bob'), '0', 'others have');
    is($store->execute('HGET', "${prefix}pending", $crew) =~ / (\d+) / && $1, 4100, 'the other users of the group have to acknowledge');
    $bob->ack($shared);
    wait_until('the shared notification is complete', sub { $sql->("SELECT count(*) FROM clairon.receipt WHERE notification = '$shared'") == 3 });
    is($sql->("SELECT outcome FROM clairon.receipt WHERE notification = '$shared' AND user_id = ''"), 'forgotten', 'its outcome is that of the removed user');

    my %may = map { $_ => 1 } map { "$prefix$_" } 'stream', 'control', 'ack_events', 'members:CREW:c', "groups:$NAME";
    wait_until('only shared streams have the name', sub { !grep { !$may{$_} } keys_with_name($store) }) or diag(join ' ', keys_with_name($store));
    note(join ' ', keys_with_name($store));
    my ($entry) = map { $store->entries($shards == 1 ? 'clairon:errors' : "clairon:{$_}:errors") } 0 .. $shards - 1;
    is_deeply([ $entry->{id}, JSON::decode_json($entry->{users}), JSON::decode_json($entry->{data})->{routing}{audience}{targets} ],
        [ $failed, ['bob'], ['bob'] ], 'the error log has the others');
    my @own = grep { index($_->{data} // '', $NAME) >= 0 } map { $store->entries($shards == 1 ? 'clairon:stream' : "clairon:{$_}:stream") } 0 .. $shards - 1;
    my %own = map { $_->{id} => 1 } @own;
    is_deeply([ sort keys %own ], [ sort $shared, $acked, $absent, $failed ], 'the stream has the name in shared notifications only');
    $sql->("DELETE FROM clairon.member WHERE user_id = '$NAME'");
    wait_until('the store has deleted the membership', sub { !$store->execute('EXISTS', "${prefix}groups:$NAME") });
    my $trace = "${prefix}trace:01890000-0000-7000-8000-000000000000";
    $store->execute('RPUSH', $trace, 'stored 1 0 1-0 -', (map { "sent $_ 0 conn $NAME" } 1 .. 500), 'sent 501 0 conn bob');
    $store->execute('PEXPIRE', $trace, 3_600_000);
    $store->execute('CONFIG', 'RESETSTAT');
    my ($code, $out, $err) = $relay->run('forget', $NAME, '--json');
    is($code, 0, 'the command succeeds') or diag($err);
    my $again = JSON::decode_json($out);
    is_deeply([ @$again{qw(pairs notifications memberships)} ], [ 0, 0, 0 ], 'a repeated removal finds no more');
    is_deeply([ map { s/ \d.*//r } @{ $store->execute('LRANGE', $trace, 0, -1) } ], [ 'stored', 'sent', 'forgotten' ], 'a trace keeps the events of others');
    cmp_ok($store->execute('PTTL', $trace), '>', 0, 'and its end');
    my ($reads) = $store->execute('INFO', 'commandstats') =~ /cmdstat_lrange:calls=(\d+)/;
    cmp_ok($reads, '<', 100, 'it is not read again for each event');
    delete @may{ "${prefix}control", "${prefix}members:CREW:c", "${prefix}groups:$NAME" };
    is_deeply([ grep { !$may{$_} } keys_with_name($store) ], [], 'and removes the change of the membership');

    # What relays may still read is deleted later.
    my $late = "${prefix}forgotten";
    ok(scalar(grep { /^e/ } @{ $store->execute('ZRANGE', $late, 0, -1) }), 'an ack event that others share is deleted later');
    $store->execute('ZADD', $late, 'XX', map { (1, $_) } @{ $store->execute('ZRANGE', $late, 0, -1) });
    $store->execute('EVAL', Clairon::Test::script_text('trim'), 1, "${prefix}stream", $prefix =~ s/:$//r, (1_000_000_000) x 3);
    is_deeply([ grep { !/:stream$/ } keys_with_name($store) ], [], 'then only the stream has the name');

    # A later session of the user is accepted, and others notice nothing.
    my $back = $relay->client($NAME);
    my $new = $notify->($NAME);
    $back->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{id} eq $new });
    pass('the user may connect again, and receives new notifications');
    my ($early) = map { $_->{pos} } grep { $_->{t} eq 'connected' } @{ $bob->{messages} };
    $bob->close;
    $other->restart;    # and reads what it had in memory from the store
    my $resumed = $other->client('bob', pos => $early);
    $resumed->wait_for(sub { $_[0]{t} eq 'connected' });
    $resumed->wait_for(sub { $_[0]{t} =~ /^(msg|gap)$/ });
    unlike($resumed->gaps, qr/trimmed|epoch/, 'the session of another user resumes without a gap for the deleted entries');

    # A relay that is paused ends the session when it continues, even if it must reconnect and has missed many changes.
    for my $missed ($shards == 1 ? (0, 250) : 0)
    {
        my $paused = $other->client($NAME);
        kill 'STOP', $other->pid;
        like(($relay->run('forget', $NAME))[1], qr/^a relay did not end the user's sessions in time/m, 'a relay that does not reply is reported');
        $store->execute('XADD', "${prefix}control", '*', qw(change - audience CREW target c user bob xid 1)) for 1 .. $missed;
        $store->execute('CLIENT', 'KILL', 'TYPE', 'normal') if $missed;
        kill 'CONT', $other->pid;
        is($paused->wait_closed, 4003, "it ends the session later, after $missed missed changes");
    }

    # The table of receipts.
    is($sql->("SELECT clairon.forget('$NAME')"), 5, 'the receipts of the user are deleted') or diag($sql->("SELECT * FROM clairon.receipt"));
    is($sql->("SELECT count(*) FROM clairon.receipt r WHERE r::text LIKE '%$NAME%'"), 0, 'no row has the name');
    $_->stop for $relay, $other;
    $pg->stop;
    $store->stop;
}
done_testing();
