# Tests that `clairon errors` fails for unknown ids, changes nothing in a dry run, and formats its output for
# terminals and pipes.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark audited unaudited);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $unknown = '01890000-0000-7000-8000-000000000000';

sub errors { return $relay->run('errors', @_) }
sub entries { return $store->error_count }

# Returns the output on a terminal, which script(1) provides.
sub at_terminal
{
    my ($variables, @arguments) = @_;
    my $command = join ' ', map { "'$_'" } $relay->{program}, @arguments, '-c', $relay->{file};
    local @ENV{ 'TERM', keys %$variables } = ('xterm', values %$variables);
    return scalar qx(script -qec "$command" /dev/null </dev/null);
}

# Ids of notifications that expired unacknowledged.
sub expired
{
    my ($count, $users) = @_;
    my $before = entries();
    my @ids = split /\n/, $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$users}', '{}', ack_required => true,"
        . " ttl => '1 hour') FROM generate_series(1, $count)");
    wait_until('all notifications are stored', sub { @ids == grep { defined } map { @{ $store->execute('HMGET', $_, @ids) } } $store->keys('pending') });
    $store->expire(@ids);
    wait_until('all notifications are in the error log', sub { entries() == $before + $count });
    return @ids;
}

# An empty log.
my ($code, $out, $err) = errors('list');
is_deeply([ $code, $out, $err ], [ 0, '', "the error log is empty\n" ],
    'an empty error log is reported on standard error');
is_deeply([ errors('list', '--json') ], [ 0, '', "the error log is empty\n" ],
    '--json reports an empty error log on standard error too');
is((errors('list', '--feed.primary_conninfo=passfile=/nonexistent'))[0], 0,
    "errors list does not need the relay's secrets");
is((errors('redrive', '--all'))[1], "redrove 0 entries for 0 users\n",
    'a redrive of an empty error log succeeds and redrives no entry');

# A list is a table with a header.
my @ids = expired(3, 'u1,u2');
($code, $out) = errors('list');
my ($header, @rows) = split /\n/, $out;
like($header, qr/^TIME +ID +REASON +ATTEMPTS +SOURCE +USERS$/, 'a list starts with a header');
is(scalar @rows, 3, 'a list has a row for each error log entry');
is(index($header, 'REASON'), index($rows[0], 'expired'), 'a column starts below its header');
is(index($header, 'SOURCE'), index($rows[0], 'notify'), 'the source of a notification is listed');
is(index($header, 'USERS'), index($rows[0], 'u1, u2'), 'the last column starts below its header');
unlike($out, qr/\e/, 'output to a pipe has no colors');
($code, $out, $err) = errors('list', '--user', 'nobody');
is_deeply([ $code, $out, $err ], [ 0, '', "no entry of the error log matches\n" ], 'filters without a matching entry are reported');

# Unknown ids cause an error and change nothing.
for my $verb ('redrive', 'drop')
{
    my $before = entries();
    ($code, $out, $err) = errors($verb, $unknown);
    is($code, 1, "$verb of an unknown id exits with 1");
    is($err, "clairon errors: no entry of the error log has id $unknown\n", "$verb of an unknown id prints the reason");
    is(entries(), $before, "$verb of an unknown id changes no entry");
    is((errors($verb, '--id', uc $unknown))[0], 1, "$verb --id of an unknown id exits with 1");
    ($code, $out, $err) = errors($verb, $ids[0], '--user', 'nobody');
    is($code, 1, "$verb of an entry that another filter excludes exits with 1");
    like($err, qr/no matching entry of the error log has id \Q$ids[0]\E/, "$verb reports that the entry does not match the filter");
    is((errors($verb, '123'))[0], 2, "$verb of an id that is not a UUID exits with 2");
    like((errors($verb, '123'))[2], qr/invalid notification id, must be a UUID: 123/, "$verb of an invalid id prints the reason");
    is((errors($verb, '--id', $ids[0], '--id', $ids[1]))[0], 2, 'two --id options are rejected, because only the last one would apply');
    is(entries(), $before, "$verb with two --id changes no entry");
}
is((errors('list', $unknown))[0], 0, 'list exits with 0 if no entry matches the filter');

# A dry run changes nothing.
for my $verb ('redrive', 'drop')
{
    ($code, $out) = errors($verb, '--all', '--dry-run');
    is($code, 0, "$verb --dry-run exits with 0");
    like($out, qr/^TIME.*(?:\n\S.*u1, u2){3}\nwould $verb 3 entries(?: for 6 users)?; nothing was changed\n$/, "$verb --dry-run lists the entries and their count");
    is(entries(), 3, "$verb --dry-run changes nothing");
}
is($store->sum('HLEN', 'pending'), 0, 'a dry run makes no notification pending');
is((errors('list', '--dry-run'))[0], 2, 'list rejects --dry-run');

# One of several ids is unknown.
($code, $out, $err) = errors('drop', $ids[0], $unknown, $ids[1]);
is($code, 1, 'drop exits with 1 if one of three ids is unknown');
is($out, "dropped 2 entries\n", 'the known ids are dropped');
is_deeply([ audited($err) ], [ map { qq(act="drop" object="error log: $_") } @ids[ 0, 1 ] ], 'each drop of a requested id is audited');
is(unaudited($err), "clairon errors: no entry of the error log has id $unknown\n", 'the error names the unknown id');
($code, $out, $err) = errors('redrive', $ids[2], uc $ids[2]);
is_deeply([ $code, $out, unaudited($err) ], [ 0, "redrove 1 entry for 2 users\n", '' ], 'a repeated id counts once');
is_deeply([ audited($err) ], [qq(act="redrive" object="error log: $ids[2]")], 'a redrive is audited');
is($store->sum('HLEN', 'pending'), 1, 'redriven notifications are pending again for their users');
is(entries(), 0, 'the redriven entry is deleted');

# Entries without users cannot be redriven.
$store->execute('XADD', $store->shared('errors'), '*', id => $unknown, reason => 'undecodable', attempts => 0, users => '[]', data => '{}', route => '');
($code, $out) = errors('redrive', $unknown);
is($code, 1, 'redrive exits with 1 if the entry cannot be redriven');
like($out, qr/^skipped 1 entry: no pending user/m, 'a skipped redrive prints the reason');
is_deeply([ (errors('redrive', '--all'))[ 0, 2 ] ], [ 0, '' ], '--all skips a dead letter that cannot be redriven, and audits nothing');
expired(1, 'u3');
($code, $out, $err) = errors('redrive', '--all');
like($out, qr/^redrove 1 entry/m, '--all redrives the entries after it');
is_deeply([ audited($err) ], [qq(act="redrive" object="error log: all")], 'and audits them');
is((errors('drop', $unknown))[1], "dropped 1 entry\n", 'a dead letter that cannot be redriven can be dropped');

# --source selects the entries of a table.
my $table = $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{u5,u6}', '{}', source => 'app.orders', ack_required => true, ttl => '1 hour')");
my ($other) = expired(1, 'u5');
$store->expire($table);
wait_until('both are in the error log', sub { entries() == 2 });
is((errors('list', '--source', 'orders'))[2], "no entry of the error log matches\n", '--source compares whole names');
($code, $out) = errors('list', '--source', 'app.orders');
like($out, qr/^TIME.*\n.* $table +expired +0 +app\.orders +u5, u6\n$/, '--source selects the entries of a table');
($code, $out, $err) = errors('drop', $other, '--source', 'app.orders');
is_deeply([ $code, $err ], [ 1, "clairon errors: no matching entry of the error log has id $other\n" ], 'an id of another source does not match');
($code, $out, $err) = errors('redrive', '--source', 'app.orders');
is_deeply([ $code, $out ], [ 0, "redrove 1 entry for 2 users\n" ], 'redrive --source sends only the entries of that table');
is_deeply([ audited($err) ], ['act="redrive" object="error log: source=app.orders"'], 'with its filter in the audit line');
is((errors('drop', '--source', 'notify'))[1], "dropped 1 entry\n", 'drop --source removes only the entries of that source');
is(entries(), 0, 'no entry remains');

# One run reads more than one page.
expired(130, 'u3');
my @many = map { JSON::decode_json($_)->{id} } split /\n/, (errors('list', '--json'))[1];
($code, $out) = errors('redrive', '--limit', 120);
is($out, "redrove 120 entries for 120 users\n", 'one redrive processes more than one page');
is(entries(), 10, 'redrive --limit limits the number of redriven entries');
($code, $out) = errors('drop', @many[ 119, 120 .. 129 ]);
is_deeply([ $code, $out ], [ 1, "dropped 10 entries\n" ], 'drop deletes the entries that were not redriven');
is(entries(), 0, 'the error log is empty');

# The store rejects a change.
expired(1, 'u4');
$store->execute('ACL', 'SETUSER', 'reader', 'on', '>reader-secret', '~*', '+@all', '-xdel', '-evalsha');
my $proxy = Clairon::Test::proxy($store->{socket});
my $url = 'redis://reader:reader-secret@127.0.0.1:' . $proxy->port;
for my $verb ('redrive', 'drop')
{
    ($code, $out, $err) = errors($verb, '--all', "--store.url=$url");
    is($code, 1, "a $verb that the store rejects exits with 1");
    like($err, qr/^clairon errors: the store rejected the command: .*(?:xdel|evalsha|permission|can't run this command)/im, 'the error of the store is printed');
    like($out, qr/^(?:redrove|dropped) 0 entries/, "a rejected $verb is not counted");
}

# On a terminal, the output has colors, relative times and a progress display.
my $seen = at_terminal({}, 'errors', 'list');
like($seen, qr/\e\[31mexpired/, 'output to a terminal has colors');
like($seen, qr/^(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}  [0-9a-f]{8}-/m, 'output to a terminal has relative times');
unlike(at_terminal({ NO_COLOR => 1 }, 'errors', 'list'), qr/\e/, 'NO_COLOR disables colors');
unlike(at_terminal({ TERM => 'dumb' }, 'errors', 'list'), qr/\e/, 'output to a dumb terminal has no colors');
like(at_terminal({}, 'errors', 'drop', '--all'), qr/drop: \d+ of 1 entries of the error log scanned/,
    'output to a terminal shows the progress');

done_testing();
