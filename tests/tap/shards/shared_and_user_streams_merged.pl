# Tests that, with several shards, each user receives the shared stream and the user's stream merged, without
# duplicates, over every transport and from every cursor.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 4 }
use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE task (id int PRIMARY KEY, owners text[], version int);
    SELECT clairon.watch('task', 'USER', 'owners');
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2')});
my $store  = Clairon::Test::store();
my %short  = ('delivery.ack_timeout' => '1s', 'delivery.backoff_base' => '100ms');
my $relay  = Clairon::Test::relay($pg, $store, conf => \%short);
my $second = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %short, 'delivery.window' => 8 });
my $mark   = 0;

# Each notification is marked with the next number.
sub notify
{
    my ($audience, $targets, @more) = @_;
    $mark++;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": $mark}'" . join('', map { ", $_" } @more) . ')');
}
sub marks   { return map { $_->{payload}{mark} } @_ }
sub with_ack { return ('ack_required => true', @_) }
sub shard_of { my ($id) = @_; my ($found) = grep { $_->{id} eq $id } $store->entries; return $found->{stream} =~ /\{(\d)\}/ }

# Returns the notifications of a user, read by polls.
sub poll
{
    my ($user, $pos, $at) = @_;
    my (@notifications, %headers);
    do
    {
        my $raw = Clairon::Test::RawSocket->new($at);
        $raw->write("GET /v1/poll?wait=0&max=7&pos=$pos HTTP/1.1\r\nHost: $raw->{host}\r\nAuthorization: Bearer " . token(sub => $user) . "\r\n\r\n");
        my $response = $raw->read_response;
        %headers = %{ $response->{headers} };
        $pos     = $headers{'clairon-pos'};
        my @lines = map { JSON::decode_json($_) } split /\n/, $response->{body} // '';
        push @notifications, map { $_->{n} } grep { $_->{t} eq 'msg' } @lines;
        return (\@notifications, $pos) if $response->{status} == 204 || !@lines;
    } while (1);
    return;
}

# Notifications arrive live, one by one: notifications for one user are in the user's shard, other notifications in the
# shared shard.
my ($one, $two) = map { $relay->client($_) } qw(u1 u2);
my $begin = $one->pos;
my %shard;
for my $case ([ USER => 'u1' ], [ USER => 'u1,u2' ], [ USER => 'u1' ], [ ALL => '' ], [ TEAM => 't1' ], [ USER => 'u2' ], [ USER => 'u1' ])
{
    my ($audience, $targets) = @$case;
    my $id = notify($audience, $targets);
    push @{ $shard{"$audience $targets"} }, shard_of($id) if wait_until('the notification is stored', sub { grep { $_->{id} eq $id } $store->entries });
    my $wanted = $mark;
    $_->run_until('the notification arrives', sub { grep { $_ == $wanted } marks($_->notifications) }) for $targets eq 'u2' ? () : $one;
}
$two->wait_notifications(4);
is_deeply([ @shard{ 'USER u1,u2', 'ALL ', 'TEAM t1' } ], [ [0], [0], [0] ], 'notifications for several users are in shard 0');
my ($own) = @{ $shard{'USER u1'} };
is_deeply($shard{'USER u1'}, [ ($own) x 3 ], 'notifications for one user are in one shard');
cmp_ok($own, '>', 0, 'the shard of the user is not the shared shard');
is_deeply([ marks($one->notifications) ], [ 1 .. 5, 7 ], 'all notifications are received in order');
is_deeply([ marks($two->notifications) ], [ 2, 4, 5, 6 ], 'each user receives only notifications for that user');

# Clients resume from every cursor, on another relay, over each transport.
my @seen = ([ $begin, 0 ], map { [ $_->{pos}, $_->{n}{payload}{mark} ] } grep { $_->{t} eq 'msg' } @{ $one->{messages} });
for my $at (@seen)
{
    my ($pos, $last) = @$at;
    my @rest = grep { $_ > $last && $_ != 6 } 1 .. 7;
    my $reconnected = $second->client('u1', pos => $pos);
    ok($reconnected->wait_for('connected')->{resumed}, "after $last: the client resumes");
    $reconnected->wait_notifications(scalar @rest);
    is_deeply([ marks($reconnected->notifications) ], \@rest, "after $last: the client receives exactly the missing notifications");
    $reconnected->close;
    my $stream = Clairon::Test::EventStream->open($second, 'u1', 'Last-Event-ID' => $pos);
    is_deeply([ marks(map { $stream->next_notification } @rest) ], \@rest, "after $last: SSE returns the same notifications");
    $stream->disconnect;
    is_deeply([ marks(@{ (poll('u1', $pos, $second))[0] }) ], \@rest, "after $last: polls return the same notifications");
}
like($seen[-1][0], qr/^[0-9a-f]{16}\.\d+-\d+[0-9a-z.-]*$/, 'a cursor contains only URL-safe characters');
cmp_ok(length $seen[-1][0], '<', 100, 'a cursor is shorter than 100 bytes');
is($second->client('u1', pos => "$seen[-1][0].1.1.1.1")->wait_for('gap')->{why}, 'epoch', 'an invalid cursor is rejected');

# Another user's cursor causes no loss, because the user's stream is read from its start.
my $stranger = $second->client('u2', pos => $seen[-1][0]);
$stranger->run_until('the user\'s notifications arrive', sub { grep { $_ == 6 } marks($stranger->notifications) });
is($stranger->gaps, '', 'a client with another user\'s cursor receives no gap');
$stranger->close;

# Cursors beyond the replay buffer are resumed from the store, in pages of both streams.
$one->close;
my $far = $seen[-1][0];
my $from = $mark + 1;
$pg->safe_psql('postgres', qq{
    SELECT clairon.notify(CASE WHEN i % 3 = 0 THEN 'ALL' ELSE 'USER' END, CASE WHEN i % 3 = 0 THEN '{}' ELSE '{u1}' END::text[],
        jsonb_build_object('mark', $mark + i)) FROM generate_series(1, 1500) i});
$mark += 1500;
wait_until('all notifications are stored', sub { $store->entries == 1507 });
$second->restart;
my $reconnected = $second->client('u1', pos => $far);
$reconnected->wait_notifications(1500);
is_deeply([ marks($reconnected->notifications) ], [ $from .. $mark ], 'pages of two streams are merged in commit order');
ok($reconnected->wait_for('connected')->{resumed}, 'a client resumes from pages of two streams');
is_deeply([ marks(@{ (poll('u1', $far, $second))[0] }) ], [ $from .. $mark ], 'polls return the same notifications');
$reconnected->close;

# The audience of a row changes from one user to two users and back.
my $row = $relay->client('u1');
$pg->safe_psql('postgres', q{INSERT INTO task VALUES (1, '{u1}', 0)});
for my $version (1 .. 20)
{
    my $owners = $version % 2 ? '{u1,u2}' : '{u1}';
    $pg->safe_psql('postgres', "UPDATE task SET owners = '$owners', version = $version WHERE id = 1");
}
$row->wait_notifications(21);
is_deeply([ sort { $a <=> $b } map { $_->{payload}{after}{version} } $row->notifications ], [ 0 .. 20 ], 'all versions of the row are delivered');
$row->close;

# The cursor of an overtaking notification precedes the overtaken notifications in both streams.
$two->close;
my $slow = $relay->client('u1');
$from = $mark + 1;
$pg->safe_psql('postgres', qq{
    SELECT clairon.notify('USER', '{u1}', jsonb_build_object('mark', $mark + i), priority => CASE WHEN i = 30 THEN 'HIGH' ELSE 'LOW' END) FROM generate_series(1, 30) i;
    SELECT clairon.notify('ALL', '{}', jsonb_build_object('mark', $mark + i), priority => CASE WHEN i = 60 THEN 'HIGH' ELSE 'LOW' END) FROM generate_series(31, 60) i});
$mark += 60;
$slow->run_until('all notifications arrive', sub { $slow->notifications == 60 });
for my $line (grep { $_->{t} eq 'msg' && $_->{n}{metadata}{priority} eq 'HIGH' } @{ $slow->{messages} })
{
    my %had;
    for my $before (@{ $slow->{messages} })
    {
        $had{ $before->{n}{payload}{mark} } = 1 if $before->{t} eq 'msg';
        last if $before == $line;
    }
    my $after = $second->client('u1', pos => $line->{pos});
    $after->run_until('the overtaken notifications arrive', sub { my %all = (%had, map { $_ => 1 } marks($after->notifications)); !grep { !$all{$_} } $from .. $mark });
    pass('a client that resumes from this cursor loses no notification');
    $after->close;
}
$slow->close;

# Acks arrive from any connection, over HTTP, and on another relay.
my ($first_session, $second_session) = map { $_->client('u1') } $relay, $second;
my @ids = (notify(USER => 'u1', with_ack), notify(USER => 'u1,u2', with_ack), notify(USER => 'u1', with_ack), notify(TEAM => 't1', with_ack));
$_->run_until('all four notifications arrive', sub { my $to = $_; 4 == grep { my $id = $_; grep { $_->{metadata}{id} eq $id } $to->notifications } @ids }) for $first_session, $second_session;
is($store->pending, 4, 'four notifications are pending');
$second_session->ack($ids[0]);
is_deeply($first_session->wait_for('acked')->{ids}, [ $ids[0] ], 'an ack in the user\'s shard is announced on the other relay');
my $raw  = Clairon::Test::RawSocket->new($second);
my $body = JSON::encode_json({ ids => [ @ids[ 1, 2 ] ] });
$raw->write("POST /v1/ack HTTP/1.1\r\nHost: $raw->{host}\r\nAuthorization: Bearer " . token(sub => 'u1') . "\r\nContent-Length: " . length($body) . "\r\n\r\n$body");
is($raw->read_response->{status}, 204, 'acks over HTTP are accepted');
wait_until('the notifications addressed only to the user are complete', sub { $store->pending == 2 });
$first_session->ack($ids[3]);
my $member = $relay->client('u2');
$member->run_until('both notifications arrive', sub { 2 == grep { my $id = $_->{metadata}{id}; grep { $_ eq $id } @ids } $member->notifications });
$member->ack(@ids[ 1, 3 ]);
wait_until('all notifications are complete', sub { $store->pending == 0 });
pass('a notification for several users is complete after all of them have acknowledged');
$_->close for $first_session, $second_session, $member;

# Any relay retries, and counts the attempt.
my $again = $second->client('u1');
my $id = notify(USER => 'u1', with_ack('retry_limit => 5'));
$again->run_until('the notification and a retry arrive', sub { 2 <= grep { $_->{metadata}{id} eq $id } $again->notifications });
is_deeply([ map { $_->{routing}{retry}{attempts} } grep { $_->{metadata}{id} eq $id } $again->notifications ]->[1], 1, 'a notification in the user\'s shard is retried');
$again->ack($id);
wait_until('the notification is complete', sub { $store->pending == 0 });
$again->close;

# Pending notifications of both lists are delivered through a small in-flight window.
@ids = map { notify($_ % 2 ? (USER => 'u1') : (TEAM => 't1'), with_ack("ttl => '1 hour'")) } 1 .. 30;
wait_until('the notifications are stored', sub { $store->pending == 30 });
my $narrow = $second->client('u1', win => 4);
my $acked  = 0;
$narrow->run_until('all notifications arrive as acks are sent', sub {
    my @notifications = $narrow->notifications;
    $narrow->send_now({ t => 'ack', ids => [ $notifications[ $acked++ ]{metadata}{id} ] }) while $acked < @notifications;
    my %had = map { $_->{metadata}{id} => 1 } @notifications;
    return !grep { !$had{$_} } @ids;
});
wait_until('the notification is pending only for the other member', sub { $store->pending == 15 });
pass('pending notifications of both shards are delivered as the in-flight window allows');
$narrow->close;

# Only one of the streams is trimmed.
my $pos = $relay->client('u1')->pos;
$from = $mark + 1;
notify(USER => 'u1'), notify(ALL => '') for 1 .. 3;
wait_until('the notifications are stored', sub { grep { (JSON::decode_json($_->{data})->{payload}{mark} // 0) == $mark } $store->entries });
my ($newest) = reverse $store->entries("clairon:{$own}:stream");
$store->execute('XDEL', "clairon:{$own}:stream", $_->{entry}) for grep { $_->{entry} ne $newest->{entry} } $store->entries("clairon:{$own}:stream");
$second->restart;
my $trimmed = $second->client('u1', pos => $pos);
$trimmed->run_until('the remaining notifications arrive', sub { grep { $_ == $mark } marks($trimmed->notifications) });
is($trimmed->gaps, 'trimmed', 'trimmed notifications of one stream cause one gap');
is_deeply([ grep { $_ >= $from } marks($trimmed->notifications) ], [ $from + 1, $from + 3, $from + 4, $from + 5 ], 'the remaining notifications are delivered');
my ($gap) = grep { $_->{t} eq 'gap' } @{ $trimmed->{messages} };
my $after = $second->client('u1', pos => $gap->{to});
$after->run_until('the remaining notifications arrive again', sub { grep { $_ == $mark } marks($after->notifications) });
is($after->gaps, '', 'a cursor after the gap causes no second gap');

# One shard loses all data, so all cursors are invalid.
my @all = map { $_->client('u9') } $relay, $second;
$store->execute('DEL', map { $_ eq 'stream' ? "clairon:{3}:stream" : "clairon:{3}:$_" } qw(stream meta pending));
is($_->wait_for('gap')->{why}, 'epoch', 'a loss in one shard causes a gap for all sessions') for @all;
notify(ALL => '');
for my $client (@all)
{
    $client->run_until('later notifications arrive', sub { grep { $_ == $mark } marks($client->notifications) });
}
is($all[0]->pos, $all[1]->pos, 'all sessions have the same cursor');

done_testing();
